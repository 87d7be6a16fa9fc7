#!/bin/sh
# Property tests of the server's API by its own description: schemathesis (from the Python
# package index) makes requests from /openapi.json, right and wrong ones.
#
#   sh scripts/serve_fuzz.sh [BINARY] [SECONDS]      build/release/ingot, 60
#
# Needs python3 with venv, and the package index; keeps its environment in build/fuzz-venv.

cd "$(dirname "$0")/.." || exit 1
. scripts/setup.sh

binary=${1:-build/release/ingot}
seconds=${2:-60}
venv=build/fuzz-venv
[ -x "$binary" ] || die "no $binary: build it first"
[ -x "$venv/bin/openapi-spec-validator" ] || {
    say "installing schemathesis and openapi-spec-validator"
    python3 -m venv "$venv" >&2 && "$venv/bin/pip" --quiet install schemathesis openapi-spec-validator >&2 ||
        die "they cannot be installed"
}
work=$(mktemp -d) || die "no temporary folder"
server=
trap '[ -z "$server" ] || kill "$server" 2>/dev/null; rm -rf "$work"' EXIT
PYTHONPATH=tests/serve python3 -B -c "import sys, tiny_gguf; tiny_gguf.write(sys.argv[1])" \
    "$work/tiny.gguf" || die "the model cannot be written"
"$binary" serve "$work/tiny.gguf" --port 0 --json --no-measure --quiet --ctx 256 \
    >"$work/about" 2>"$work/errors" &
server=$!
tries=0
until [ -s "$work/about" ]; do
    tries=$((tries + 1))
    [ $tries -lt 100 ] || die "the server does not start: $(cat "$work/errors")"
    sleep 0.1
done
url=$(sed -n 's/.*"url": *"\([^"]*\)".*/\1/p' "$work/about")
"$venv/bin/python" - "$url/openapi.json" <<'END' || die "the description is not OpenAPI's"
import json, sys, urllib.request, openapi_spec_validator
openapi_spec_validator.validate(json.load(urllib.request.urlopen(sys.argv[1])))
END
say "schemathesis against $url, $seconds s at most"
timeout --signal=INT "$seconds" "$venv/bin/schemathesis" run "$url/openapi.json" \
    --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,negative_data_rejection \
    --phases "${PHASES:-examples,coverage,fuzzing}" --max-examples 60 --request-timeout 60 >&2
code=$?
[ $code -ne 124 ] || code=0 # the time was up, and nothing was found
kill -0 "$server" 2>/dev/null || die "the server ended: $(cat "$work/errors")"
kill "$server"
wait "$server" || die "the server's exit code is $?: $(cat "$work/errors")"
server=
exit $code
