#!/bin/sh
# The whole suite, from a bare Debian or Ubuntu:
#
#   sh scripts/test.sh
#
# Installs what is missing, fetches the two small models and the Python packages that tests use
# (without a network their tests say that they skip), builds the presets `release` and `dev`
# (address and undefined-behaviour sanitizers, warnings are errors) and runs all tests on both;
# tests labelled `slow` on release alone. The last line is "N passed, M failed"; the exit code is 0
# only if none failed.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

passed=0 failed=0

finish() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
    exit
}

# A step that is no test of ctest's, but fails the run.
step() { # COMMAND...
    : >"$log"
    "$@" </dev/null >>"$log" && return 0
    grep -v '^\[' "$log" | tail -n 60
    echo "failed: $*"
    failed=$((failed + 1))
    finish
}

# Run a preset's tests and add what ctest counted.
run() { # PRESET CTEST-OPTIONS...
    say "testing $1"
    { ctest --preset "$@" -j "$(n_jobs)" </dev/null 2>&1 || echo "ctest: exit code $?"; } |
        tee "$log"
    # "100% tests passed, 0 tests failed out of 40"
    bad=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of [0-9]*.*/\1/p' "$log")
    all=$(sed -n 's/.*tests passed, [0-9]* tests failed out of \([0-9]*\).*/\1/p' "$log")
    if [ -z "$all" ]; then
        failed=$((failed + 1))
    else
        passed=$((passed + all - bad)) failed=$((failed + bad))
        [ "$bad" -gt 0 ] || ! grep -q '^ctest: exit code' "$log" || failed=$((failed + 1))
    fi
}

# shellcheck disable=SC2046
set_up build cmocka $(fetching SmolLM2-135M-Instruct.Q4_1.gguf gemma-3-270m-q4_k_m.gguf)
INGOT_TEST_MODEL_DIR=${INGOT_TEST_MODEL_DIR:-$(model_dir)}
export INGOT_TEST_MODEL_DIR
models=there
if [ "$INGOT_TEST_MODEL_DIR" = "$(model_dir)" ]; then
    (sh scripts/fetch_models.sh) || models=missing
fi
python=$(test_python) || python=
mkdir -p build || die "cannot write to $PWD/build"
log=build/test.log
for preset in release dev; do
    say "building $preset ($(n_jobs) at a time)"
    step cmake --preset "$preset" "-DPython3_EXECUTABLE=${python:-$(command -v python3)}"
    step compile "$log" --preset "$preset"
done
run release
run dev -LE slow
[ -n "$python" ] || echo "no packages of Python's: the test with OpenAI's client did nothing"
[ $models = there ] || echo "a model could not be fetched: the tests that need it did nothing"
say "done"
finish
