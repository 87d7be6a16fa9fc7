#!/bin/sh
# Compare with peers on this machine, in one run.
#
#   sh bench/compare.sh run     running models, against llama.cpp
#   sh bench/compare.sh serve   serving many users, against llama.cpp's server
#   sh bench/compare.sh train   training steps, against PyTorch
#
# Sets the peer up (once, in the cache folder), alternates the two programs, and prints the ratios
# with their spread as a table; JSON goes to the file that --json names. All options are those of
# bench/compare_run.py, bench/compare_serve.py and bench/compare_train.py (--help).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
case "${1:-}" in
run | serve | train)
    verb=$1
    shift
    exec python3 -B "$here/compare_$verb.py" "$@"
    ;;
*)
    echo "usage: sh bench/compare.sh run|serve|train [options]" >&2
    exit 2
    ;;
esac
