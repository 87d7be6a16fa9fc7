#!/bin/sh
# What takes long, beside the suite itself:
#
#   sh scripts/test-all.sh [FUZZ-SECONDS [FIRST-SEED]]     an hour, 3600, unless given; seed 1
#
# Each fuzz target (fuzz/fuzz_*.c) for so long, all at once and niced, while the rest runs: the
# suite (scripts/test.sh), the suite under the thread sanitizer, a build with clang without
# warnings, the chat page in Chromium, and 5,000 random programs from that seed on. When the
# fuzzers are done: a soak of the server, and a pair of runs of every row of bench/compare.sh
# against llama.cpp, which is built first; the course with its bars. The outcome of each part is a
# row of docs/test-all.md. The exit code is 0 only if all parts passed.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

fuzz_seconds=${1:-3600}
case $fuzz_seconds in
*[!0-9]* | '') die "usage: sh scripts/test-all.sh [FUZZ-SECONDS [FIRST-SEED]]" ;;
esac
first_seed=${2:-1}
case $first_seed in
*[!0-9]* | '') die "usage: sh scripts/test-all.sh [FUZZ-SECONDS [FIRST-SEED]]" ;;
esac
table=docs/test-all.md
failures=0 pids=
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

part() { # NAME LOG COMMAND...
    name=$1 to=build/$2 start=$(date +%s) outcome=passed
    shift 2
    say "$name (build/${to#build/})"
    "$@" >"$to" 2>&1 </dev/null || outcome=FAILED
    # "812 passed, 0 failed" of the suite, "27 cases, 0 failed" of the page, "100% tests passed ... out of 80" of ctest
    count=$(sed -n 's/^\([0-9]*\) passed, [0-9]* failed$/\1 tests/p
        s/^\([0-9]*\) cases, [0-9]* failed$/\1 tests/p
        s/.*tests passed, .* out of \([0-9]*\).*/\1 tests/p' "$to" | tail -n 1)
    row "$name${count:+, $count}" $outcome $(($(date +%s) - start)) "$to"
}

# All tests but those of the source, and those that compute for minutes what others compute, too.
thread_sanitizer() {
    cmake --preset tsan && cmake --build --preset tsan --parallel "$(n_jobs)" &&
        ctest --preset tsan -LE 'check|slow' -E 'golden|neighbours' -j "$(n_jobs)"
}

clang_build() {
    cmake -G Ninja -S . -B build/clang -DCMAKE_C_COMPILER=clang -DCMAKE_BUILD_TYPE=Release \
        -DIG_WERROR=ON && cmake --build build/clang --parallel "$(n_jobs)"
}

page() {
    python=$(browser_python) &&
        "$python" -B tests/serve/test_page.py build/release/made/serve/page
}

soak() {
    python3 -B scripts/serve_soak.py build/release/ingot \
        "$INGOT_TEST_MODEL_DIR/SmolLM2-135M-Instruct.Q4_1.gguf" --seconds 60
}

# The course in full (docs/learn/): digits, pictures, and the small GPT, mean of three seeds.
course() {
    data=../shared/data bin=build/release/tests/learn
    [ -d $data ] || { data=$(model_dir) && sh scripts/fetch_data.sh digits mnist; } || return 1
    gzip -dc "$data/digits.csv.gz" | $bin/learn_01_by_hand || return 1
    gzip -dc "$data/digits.csv.gz" | $bin/learn_02_autograd || return 1
    gzip -dc "$data/mnist_5k.csv.gz" | $bin/learn_03_cnn || return 1
    [ -f "$data/tinyshakespeare.txt" ] || return 0
    $bin/learn_06_gpt 2000 3 <"$data/tinyshakespeare.txt" >build/gpt.log || return 1
    cat build/gpt.log
    awk '/^mean of 3:/ { found = 1; if ($4 > 1.88) exit 1 } END { exit !found }' build/gpt.log
}

# Start all fuzzers; what they find lies in build/fuzz-TARGET-*.
start_fuzzers() {
    if ! cmake --preset fuzz >build/fuzz.log 2>&1 ||
        ! cmake --build --preset fuzz --parallel "$(n_jobs)" >>build/fuzz.log 2>&1; then
        die "the fuzz targets do not build: build/fuzz.log"
    fi
    fuzz_start=$(date +%s)
    for file in fuzz/fuzz_*.c; do
        target=${file#fuzz/fuzz_} target=${target%.c}
        mkdir -p "build/corpus/$target"
        nice -n 19 "build/fuzz/fuzz/fuzz_$target" "-max_total_time=$fuzz_seconds" \
            -timeout=600 "-artifact_prefix=build/fuzz-$target-" "build/corpus/$target" \
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
    for file in fuzz/fuzz_*.c; do
        target=${file#fuzz/fuzz_} target=${target%.c} outcome=passed
        wait "$1" || outcome=FAILED
        shift
        runs=$(sed -n 's/^Done \([0-9]*\) runs.*/\1/p' "build/fuzz-$target.log")
        row "fuzz $target, ${runs:-?} inputs" $outcome $(($(date +%s) - fuzz_start)) \
            "build/fuzz-$target.log"
    done
}

set_up build cmocka clang peer browser
mkdir -p build || die "cannot write to $PWD/build"
say "building the fuzz targets"
start_fuzzers
{
    echo '# The last long test'
    echo
    echo "Written by \`sh scripts/test-all.sh\`. $(date +%Y-%m-%d)," \
        "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(n_jobs) cores." \
        "Fuzzing: $fuzz_seconds s a target, all at once, beside the other parts."
    echo
    echo '| part | outcome | time |'
    echo '| --- | --- | ---: |'
} >"$table"
part 'the suite, release and sanitizers' test-all-suite.log sh scripts/test.sh
part 'thread sanitizer' test-all-tsan.log thread_sanitizer
part 'clang, warnings are errors' test-all-clang.log clang_build
part 'the page in a browser' test-all-page.log page
part "random programs, 5000 from seed $first_seed" test-all-random.log \
    build/release/tests/exec/test_random_programs 5000 "$first_seed"
wait_for_fuzzers
part 'soak of the server, 200 connections' test-all-soak.log soak
part 'llama.cpp, a pair of runs a row' test-all-peers.log sh bench/compare.sh run --pairs 1
part 'the course: digits, CNN, GPT' test-all-course.log course
[ $failures -eq 0 ]
