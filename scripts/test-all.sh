#!/bin/sh
# What takes long, beside the suite itself:
#
#   sh scripts/test-all.sh
#
# Each fuzz target for FUZZ_SECONDS (3600), all at once and niced, while the rest runs: the suite
# (scripts/test.sh); the team, plans and runners under the thread sanitizer; a build with clang
# without warnings. The outcome of each part is a row of docs/test-all.md. The exit code is 0
# only if all parts passed.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

table=docs/test-all.md
targets='gguf tokenizer template'
failures=0
INGOT_TEST_MODEL_DIR=${INGOT_TEST_MODEL_DIR:-$(model_dir)}
export INGOT_TEST_MODEL_DIR

row() { # NAME OUTCOME SECONDS LOG
    printf '| %s | %s | %d s |\n' "$1" "$2" "$3" >>"$table"
    say "$1: $2"
    [ "$2" = passed ] || {
        failures=$((failures + 1))
        tail -n 40 "$4" >&2
    }
}

part() { # NAME COMMAND...
    name=$1 start=$(date +%s) outcome=passed
    shift
    say "$name"
    "$@" >build/test-all.log 2>&1 || outcome=FAILED
    row "$name" $outcome $(($(date +%s) - start)) build/test-all.log
}

thread_sanitizer() {
    cmake --preset tsan && cmake --build --preset tsan --parallel "$(n_jobs)" &&
        ctest --preset tsan -R 'base/|exec/|infer/' -E 'golden|neighbours' -j 1
}

clang_build() {
    cmake -G Ninja -S . -B build/clang -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release \
        -DIG_WERROR=ON && cmake --build build/clang --parallel "$(n_jobs)"
}

# Start all fuzzers; what they find lies in build/fuzz-TARGET-*.
start_fuzzers() {
    if ! cmake --preset fuzz >build/fuzz.log 2>&1 ||
        ! cmake --build --preset fuzz --parallel "$(n_jobs)" >>build/fuzz.log 2>&1; then
        die "the fuzz targets do not build: build/fuzz.log"
    fi
    fuzz_start=$(date +%s) pids=
    for target in $targets; do
        mkdir -p "build/corpus/$target"
        nice -n 10 "build/fuzz/fuzz/fuzz_$target" "-max_total_time=${FUZZ_SECONDS:-3600}" \
            "-artifact_prefix=build/fuzz-$target-" "build/corpus/$target" \
            "fuzz/seeds/$target" </dev/null >"build/fuzz-$target.log" 2>&1 &
        pids="$pids $!"
    done
    # shellcheck disable=SC2064
    trap "kill$pids 2>/dev/null; exit 130" INT TERM HUP
}

wait_for_fuzzers() {
    say "waiting for the fuzzers"
    # shellcheck disable=SC2086
    set -- $pids
    for target in $targets; do
        outcome=passed
        wait "$1" || outcome=FAILED
        shift
        runs=$(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "build/fuzz-$target.log")
        row "fuzz $target, ${runs:-?} inputs" $outcome $(($(date +%s) - fuzz_start)) \
            "build/fuzz-$target.log"
    done
}

set_up build cmocka clang
mkdir -p build || die "cannot write to $PWD/build"
say "building the fuzz targets"
start_fuzzers
{
    echo '# The last long test'
    echo
    echo "$(date +%Y-%m-%d), $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)," \
        "$(n_jobs) cores. Fuzzing: ${FUZZ_SECONDS:-3600} s a target, beside the rest."
    echo
    echo '| part | outcome | time |'
    echo '| --- | --- | ---: |'
} >"$table"
part 'the suite' sh scripts/test.sh
part 'thread sanitizer' thread_sanitizer
part 'clang, warnings are errors' clang_build
wait_for_fuzzers
[ $failures -eq 0 ]
