#!/usr/bin/env bash
# Fuzzes a real coordinator through its own OpenAPI document: no answer may be a server error, and every one must be as the
# document says. FUZZ_EXAMPLES=N tries N requests an operation and phase (default 20), FUZZ_SEED=N other ones (default 1).
# Installs schemathesis, pinned, from PyPI into target/schemathesis when it isn't there.
set -euo pipefail
cd "${0%/*}/.."
# Everything here is its own: neither somebody's database nor their coordinator.
unset DATABASE_URL NATS_URL RALPH_URL RALPH_TOKEN RALPH_DATA RALPH_REPO RALPH_BASE RALPH_WORKER_NATS_URL
. scripts/install.sh

version=4.32.5
ralph=$PWD/target/debug/ralph-coordinator
tools=$PWD/target/schemathesis-$version
work=$PWD/target/fuzz-api

# Exit code 75: nothing is wrong with the API, it could not be fuzzed here.
unavailable() {
    say "$1"
    rm -rf "$tools"
    exit 75
}

if [[ ! -x $tools/bin/st ]]; then
    say "installing schemathesis $version into $tools"
    rm -rf "$tools"
    python3 -m venv "$tools" 2>/dev/null || {
        packages "python3-venv" "python3" "python3" "python3" >&2 && rm -rf "$tools" && python3 -m venv "$tools"
    } || unavailable "Python's venv is missing: install it and run this again"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement scripts/schemathesis.txt ||
        unavailable "schemathesis could not be installed: install it into $tools and run this again"
fi

up=
stop_up() {
    [[ -n $up ]] || return 0
    kill -TERM "$up" 2>/dev/null || true
    wait "$up" || true
    up=
}
trap stop_up EXIT
trap 'exit 130' INT TERM HUP

rm -rf "$work"
mkdir -p "$work"
"$ralph" up --workers 0 --data "$work/data" >"$work/up.log" 2>&1 &
up=$!
began=$SECONDS
until "$ralph" status --data "$work/data" >/dev/null 2>&1; do
    if ! kill -0 "$up" 2>/dev/null || ((SECONDS - began > 60)); then
        cat "$work/up.log" >&2
        fail "\`up\` did not get ready; its output is above, its logs are in $work/data/logs"
    fi
    sleep 0.1
done

# Something to find: a feature that runs, a draft, and one that is over.
printf -- '- {key: a, title: A}\n- {key: b, title: B, after: [a]}\n- {key: c, title: C}\n' >"$work/tasks.yaml"
"$ralph" submit feature seed --data "$work/data" --tasks "$work/tasks.yaml" --no-repo >/dev/null
"$ralph" submit feature sketch --data "$work/data" --tasks "$work/tasks.yaml" --no-repo --draft >/dev/null
"$ralph" submit feature over --data "$work/data" --tasks "$work/tasks.yaml" --no-repo >/dev/null
"$ralph" feature cancel over --yes --data "$work/data" >/dev/null

read -r url RALPH_TOKEN < <(python3 -c '
import json, sys
found = json.load(open(sys.argv[1]))
print(found["url"], found["token"])' "$work/data/api.json")
export RALPH_TOKEN

outcome=0
config=$PWD/scripts/schemathesis.toml
cd "$work"
"$tools/bin/st" --config-file "$config" run "$url/api/openapi.json" \
    --max-examples "${FUZZ_EXAMPLES:-20}" --seed "${FUZZ_SEED:-1}" "$@" || outcome=$?
if ((outcome != 0)); then
    say "the coordinator's log is $work/data/logs"
fi
exit "$outcome"
