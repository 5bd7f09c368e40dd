#!/usr/bin/env bash
# Runs the example feature in examples/todo from submit to its merged history, with everything that it needs as children of
# one `ralph-coordinator up`. Exit 0 means: Complete, and the example's own check passes on what was merged.
set -euo pipefail
cd "${0%/*}/.."
# Everything here is its own: neither somebody's database nor their coordinator.
unset DATABASE_URL DATABASE_URL_FILE NATS_URL NATS_URL_FILE RALPH_TOKEN_FILE RALPH_URL RALPH_TOKEN RALPH_DATA RALPH_REPO RALPH_BASE RALPH_WORKER_NATS_URL

ralph=$PWD/target/debug/ralph-coordinator
agent=$PWD/target/debug/ralph-scripted-agent
demo=$PWD/.ralph/demo
data=$demo/data
repository=$demo/todo
feature=todo

say() { printf '\ndemo: %s\n' "$*" >&2; }

steps=()
started=0
begin() { say "$1"; started=$SECONDS; }
end() { steps+=("$(printf '%4s s  %s' "$((SECONDS - started))" "$1")"); }

up=
stop_up() {
    [[ -n $up ]] || return 0
    # In order: `up` ends its workers, the coordinator and the servers.
    kill -TERM "$up" 2>/dev/null || true
    wait "$up" || true
    up=
}
trap stop_up EXIT
trap 'exit 130' INT TERM HUP

begin "making a repository from examples/todo in $repository"
if [[ -e $data ]] && "$ralph" status --data "$data" >/dev/null 2>&1; then
    echo "demo: another demo is running in $data; wait for its end" >&2
    exit 1
fi
rm -rf "$demo"
mkdir -p "$demo"
cp -R examples/todo/repo "$repository"
git -C "$repository" init --quiet --initial-branch main
git -C "$repository" add --all
git -C "$repository" -c user.name=Demo -c user.email=demo@localhost commit --quiet --message "Start of the todo example"
end "repository"

begin "starting Postgres, nats-server, a coordinator and two workers"
"$ralph" up --workers 2 --data "$data" --agent "$agent" >"$demo/up.log" 2>&1 &
up=$!
until "$ralph" status --data "$data" >/dev/null 2>&1; do
    if ! kill -0 "$up" 2>/dev/null || ((SECONDS - started > 60)); then
        cat "$demo/up.log" >&2
        echo "demo: \`up\` did not get ready; its output is above, its logs are in $data/logs" >&2
        exit 1
    fi
    sleep 0.1
done
end "servers, coordinator and workers"

begin "submitting the feature and waiting for it"
outcome=0
"$ralph" submit feature "$feature" --data "$data" --tasks examples/todo/tasks.yaml --repo "$repository" --backoff 2s --wait </dev/null || outcome=$?
end "feature, from submit to Complete"
if ((outcome != 0)); then
    "$ralph" status --data "$data" >&2 || true
    echo "demo: the feature ended with exit code $outcome; its logs are in $data/logs" >&2
    exit "$outcome"
fi

say "what was merged"
git -C "$repository" --no-pager log --graph --date=format:%H:%M:%S \
    --format='%h %cd %s  %(trailers:key=Ralph-Task,key=Ralph-Attempt,separator=%x2C%x20)' "ralph/$feature"

begin "checking the result"
examples/todo/check.sh "$repository" "ralph/$feature"
end "the example's own check"

begin "stopping everything"
stop_up
end "stop"

say "how long each step took"
printf '%s\n' "${steps[@]}"
