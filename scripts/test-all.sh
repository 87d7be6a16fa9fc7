#!/bin/sh
# What takes long, after the suite itself:
#
#   sh scripts/test-all.sh
#
# The suite (scripts/test.sh); the team, plans and runners under the thread sanitizer; a build with clang
# without warnings; each fuzz target for FUZZ_SECONDS (3600), niced. The outcome of each part is a row of
# docs/test-all.md. The exit code is 0 only if all parts passed.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

table=docs/test-all.md
failures=0
INGOT_TEST_MODEL_DIR=${INGOT_TEST_MODEL_DIR:-$(model_dir)}
export INGOT_TEST_MODEL_DIR

part() { # NAME COMMAND...
    name=$1
    shift
    say "$name"
    start=$(date +%s)
    if "$@" >"build/test-all.log" 2>&1; then
        outcome=passed
    else
        outcome=FAILED failures=$((failures + 1))
        tail -n 30 build/test-all.log >&2
    fi
    printf '| %s | %s | %d s |\n' "$name" "$outcome" $(($(date +%s) - start)) >>"$table"
    say "$name: $outcome"
}

thread_sanitizer() {
    cmake --preset tsan && cmake --build --preset tsan --parallel "$(n_jobs)" &&
        ctest --preset tsan -R 'base/|exec/|infer/' -E golden -j 1
}

clang_build() {
    cmake -G Ninja -S . -B build/clang -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release \
        -DIG_WERROR=ON && cmake --build build/clang --parallel "$(n_jobs)"
}

fuzz() { # TARGET
    mkdir -p "build/corpus/$1"
    nice -n 19 "build/fuzz/fuzz/fuzz_$1" -max_total_time="${FUZZ_SECONDS:-3600}" \
        "build/corpus/$1" "fuzz/seeds/$1"
}

mkdir -p build
{
    echo '# The last long test'
    echo
    echo "$(date +%Y-%m-%d), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
        "$(n_jobs) cores. Fuzzing: ${FUZZ_SECONDS:-3600} s a target."
    echo
    echo '| part | outcome | time |'
    echo '| --- | --- | ---: |'
} >"$table"
part 'the suite' sh scripts/test.sh
has clang || die "the rest needs clang: apt-get install clang libclang-rt-14-dev"
part 'thread sanitizer' thread_sanitizer
part 'clang, warnings are errors' clang_build
cmake --preset fuzz >/dev/null && cmake --build --preset fuzz --parallel "$(n_jobs)" >build/fuzz.log 2>&1 ||
    die "the fuzz targets do not build: build/fuzz.log"
for target in gguf tokenizer template; do
    part "fuzz $target" fuzz $target
done
[ $failures -eq 0 ]
