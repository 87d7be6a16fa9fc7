#!/bin/sh
# From a bare Debian or Ubuntu to an answer:
#
#   sh scripts/demo.sh "What is the capital of France?"
#   sh scripts/demo.sh                  on a terminal: a conversation
#
# Installs what is missing, builds the command (build/demo), fetches SmolLM2-135M (98 MB) and
# answers. Standard output holds the answer and nothing else; progress is on standard error.
# What is there already is not done again: the second run takes seconds and no network.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

build() {
    cmake -G Ninja -S . -B build/demo -DCMAKE_BUILD_TYPE=Release -DIG_BUILD_TESTS=OFF \
        -DIG_BUILD_BENCH=OFF </dev/null >build/demo.log 2>&1 &&
        compile build/demo.log build/demo --target ingot_cli
}

model=SmolLM2-135M-Instruct.Q4_1.gguf
# shellcheck disable=SC2046
set_up build $(fetching $model)
mkdir -p build || die "cannot write to $PWD/build"
[ -x build/demo/ingot ] || say "building ingot (release, $(n_jobs) at a time)"
if ! build; then
    rm -rf build/demo # a folder of another place or compiler, or one that was left half done
    build || die "the build failed: $(grep -m 1 -i 'error' build/demo.log) (all of it: build/demo.log)"
fi
sh scripts/fetch_models.sh smollm2 || exit 1
say "ready: build/demo/ingot, $(model_dir)/$model"

if [ $# -gt 0 ]; then
    exec build/demo/ingot run "$(model_dir)/$model" --temp 0 -p "$*" </dev/null
elif [ -t 0 ] && [ -t 1 ]; then
    exec build/demo/ingot chat "$(model_dir)/$model"
else
    exec build/demo/ingot run "$(model_dir)/$model" --temp 0 \
        -p "What is the capital of France?" </dev/null
fi
