# shellcheck shell=sh
# What the scripts of this folder share: to be read by them (`. scripts/setup.sh`), from the
# root of the checkout. POSIX shell.
#
#   say TEXT           a line on standard error, with the seconds since the script began
#   die TEXT           the same, then the end, with exit code 1
#   set_up WHAT...     install what is missing: build python venv cmocka clang peer browser (Debian and
#                      Ubuntu, as root or through sudo; elsewhere say what to install)
#   test_python        prints a Python that has OpenAI's client, in an environment of its own in
#                      the cache folder; fails where it cannot be had
#   browser_python     the same with selenium
#   n_jobs             how many compilers at once
#   compile LOG ...    cmake --build with these arguments; its output goes to the log, and a
#                      line now and then tells how far it is
#   model_dir          prints the folder that keeps the models and data sets
#   fetching FILE...   prints the part that fetching these models needs, if any
#   is_whole FILE BYTES SHA256         is it there, and right?
#   pip_reason LOG     why pip failed, in one line, from what it said
#
# Standard output is left to the caller: what programs print here goes to standard error.

set -u
began=$(date +%s)

say() {
    printf '[%4ds] %s\n' $(($(date +%s) - began)) "$*" >&2
}

die() {
    say "$*"
    exit 1
}

n_jobs() {
    nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2
}

model_dir() {
    if [ -n "${INGOT_CACHE:-}" ]; then
        printf '%s\n' "$INGOT_CACHE"
    elif [ -n "${XDG_CACHE_HOME:-}" ]; then
        printf '%s\n' "$XDG_CACHE_HOME/ingot"
    elif [ -n "${HOME:-}" ] && [ -w "$HOME" ]; then
        printf '%s\n' "$HOME/.cache/ingot"
    else
        printf '%s\n' "$PWD/.cache"
    fi
}

is_whole() { # FILE BYTES SHA256
    [ -f "$1" ] && [ "$(wc -c <"$1")" -eq "$2" ] &&
        [ "$(sha256sum "$1" | cut -d ' ' -f 1)" = "$3" ]
}

pip_reason() { # LOG
    if grep -qi 'certificate' "$1"; then
        echo "the certificate of the package index is not trusted here"
    elif grep -qi 'connection broken\|connection error\|name resolution\|unreachable\|timed out' "$1"; then
        echo "the package index cannot be reached; is there a network?"
    elif grep -q '^ERROR: ' "$1"; then
        sed -n 's/^ERROR: //p' "$1" | head -n 1
    else
        tail -n 1 "$1"
    fi
}

# The part that fetching these models needs, if one of them is not there yet.
fetching() { # FILE...
    for file in "$@"; do
        [ -f "$(model_dir)/$file" ] || {
            echo python
            return
        }
    done
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Is A.B of "text A.B.C" at least the two numbers given?
at_least() { # MAJOR MINOR TEXT
    # shellcheck disable=SC2046
    set -- "$1" "$2" $(printf '%s\n' "$3" | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ $# -eq 4 ] && { [ "$3" -gt "$1" ] || { [ "$3" -eq "$1" ] && [ "$4" -ge "$2" ]; }; }
}

has_compiler() { # a compiler without the C library's headers is none
    has "${CC:-cc}" && printf '#include <stdio.h>\n' | "${CC:-cc}" -E - >/dev/null 2>&1
}

# The Debian packages of a part that are not there yet.
missing() { # PART
    case $1 in
    build)
        has_compiler || printf ' gcc libc6-dev'
        has cmake || printf ' cmake'
        has ninja || printf ' ninja-build'
        has pkg-config || printf ' pkg-config'
        pkg-config --exists jansson 2>/dev/null || printf ' libjansson-dev'
        pkg-config --exists libpcre2-8 2>/dev/null || printf ' libpcre2-dev'
        pkg-config --exists zlib 2>/dev/null || printf ' zlib1g-dev'
        pkg-config --exists libedit 2>/dev/null || printf ' libedit-dev'
        pkg-config --exists libmicrohttpd 2>/dev/null || printf ' libmicrohttpd-dev'
        ;;
    python)
        has python3 || printf ' python3'
        python3 -m pip --version >/dev/null 2>&1 || printf ' python3-pip'
        ;;
    venv)
        has python3 || printf ' python3'
        python3 -c 'import ensurepip, venv' 2>/dev/null || printf ' python3-venv'
        ;;
    clang) # with the libraries of its fuzzer and sanitizers
        has clang && [ -n "$(find "$(clang -print-resource-dir)/" -name 'libclang_rt.fuzzer-*')" ] ||
            printf ' clang libclang-rt-dev'
        ;;
    peer) # llama.cpp, built from its package
        has c++ || printf ' g++'
        has python3 || printf ' python3'
        python3 -m pip --version >/dev/null 2>&1 || printf ' python3-pip'
        ;;
    browser)
        has chromium || printf ' chromium'
        has chromedriver || printf ' chromium-driver'
        ;;
    cmocka)
        has python3 || printf ' python3'
        pkg-config --exists cmocka 2>/dev/null || printf ' libcmocka-dev'
        ;;
    esac
}

# Why apt-get failed, in one line, from what it said.
apt_reason() { # LOG
    if grep -qi 'could not get lock\|unable to lock\|is held by process' "$1"; then
        echo "another program holds the package manager's lock; try again when it is done"
    elif grep -qi 'temporary failure resolving\|could not resolve\|could not connect\|failed to fetch\|network is unreachable\|connection timed out' "$1"; then
        echo "the package servers cannot be reached; is there a network?"
    elif grep -qi 'unable to locate package\|no installation candidate' "$1"; then
        sed -n 's/^E: //p' "$1" | head -n 1
    else
        echo "$(sed -n 's/^E: //p' "$1" | head -n 1) (all of it: $1)"
    fi
}

# apt-get of Debian and Ubuntu; waits up to two minutes for a lock.
apt_get() { # ARGUMENTS...
    log=${TMPDIR:-/tmp}/ingot-apt-$(id -u).log
    tries=0
    while ! $as_root env DEBIAN_FRONTEND=noninteractive apt-get -q \
        -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 -o APT::Update::Error-Mode=any \
        "$@" </dev/null >"$log" 2>&1; do
        tries=$((tries + 1))
        if [ $tries -ge 12 ] || ! grep -qi 'could not get lock\|unable to lock' "$log"; then
            return 1
        fi
        [ $tries -gt 1 ] || say "waiting for another program to free the package manager"
        sleep 10
    done
    rm -f "$log"
}

set_up() { # PARTS...
    wanted=
    for part in "$@"; do
        wanted="$wanted$(missing "$part")"
    done
    if [ -n "$wanted" ]; then
        has apt-get || die "this system has no apt-get; please install:$wanted" \
            "(these are Debian's names), then run this again"
        as_root=
        if [ "$(id -u)" -ne 0 ]; then
            has sudo || die "not root, and no sudo; please install as root: apt-get install$wanted"
            as_root=sudo
            [ -t 2 ] || as_root='sudo -n'
            $as_root true || die "sudo refused; please install as root: apt-get install$wanted"
        fi
        say "installing$wanted"
        # shellcheck disable=SC2086
        if ! apt_get install -y --no-install-recommends $wanted; then
            say "the lists of packages are missing or old: fetching them"
            apt_get update || die "apt-get update: $(apt_reason "$log")"
            # shellcheck disable=SC2086
            apt_get install -y --no-install-recommends $wanted ||
                die "apt-get install: $(apt_reason "$log")"
        fi
        for part in "$@"; do
            still=$(missing "$part")
            [ -z "$still" ] || die "still missing after the installation:$still"
        done
        say "installed"
    fi
    for part in "$@"; do
        [ "$part" != build ] || at_least 3 22 "$(cmake --version)" ||
            die "cmake 3.22 or later is needed, here is: $(cmake --version | head -n 1)"
    done
}

compile() { # LOG ARGUMENTS...
    to=$1
    shift
    rm -f "$to.failed"
    { cmake --build "$@" --parallel "$(n_jobs)" </dev/null 2>&1 || : >"$to.failed"; } |
        while IFS= read -r line; do
            printf '%s\n' "$line" >>"$to"
            line=${line%%]*} # ninja's lines begin with [done/all]
            case $line in
            '['*/*[0-9])
                count=${line#?}
                tenths=$((${count%/*} * 10 / ${count#*/}))
                [ "$tenths" -eq "${shown:=0}" ] || say "  built ${count%/*} of ${count#*/}"
                shown=$tenths
                ;;
            esac
        done
    [ ! -e "$to.failed" ] || { rm -f "$to.failed" && return 1; }
}

# A Python with packages of the index, in an environment of its own in the cache folder, which is made
# anew when they change.
python_with() { # FOLDER PACKAGE==VERSION
    venv=$(model_dir)/$1
    if [ "$(cat "$venv/packages" 2>/dev/null)" != "$2" ] ||
        ! "$venv/bin/python" -c "import ${2%%=*}" 2>/dev/null; then
        (set_up venv) || return 1
        say "installing $2 for the tests"
        rm -rf "$venv"
        mkdir -p "$(model_dir)" && python3 -m venv "$venv" >&2 &&
            timeout 120 "$venv/bin/python" -m pip --quiet --disable-pip-version-check install \
                --retries 1 --timeout 15 --prefer-binary --no-compile "$2" >&2 || return 1
        printf '%s\n' "$2" >"$venv/packages"
    fi
    printf '%s\n' "$venv/bin/python"
}

test_python() {
    python_with test-python openai==3.57.0
}

browser_python() {
    python_with browser-python selenium==4.51.0
}
