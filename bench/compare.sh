#!/bin/sh
# Compare with peers on this machine, in one run.
#
#   sh bench/compare.sh run     running models, against llama.cpp
#   sh bench/compare.sh serve   serving many users, against llama.cpp's server
#
# Sets the peer up (once, in the cache folder), alternates the two programs, and prints the ratios
# with their spread as a table; JSON goes to the file that --json names. All options are those of
# bench/compare_run.py and bench/compare_serve.py (--help).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
case "${1:-}" in
run | serve)
    verb=$1
    shift
    exec python3 -B "$here/compare_$verb.py" "$@"
    ;;
*)
    echo "usage: sh bench/compare.sh run|serve [options]" >&2
    exit 2
    ;;
esac
