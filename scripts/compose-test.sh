#!/usr/bin/env bash
# Runs docker-compose.yml for real: the example and another feature from submit to Complete, more workers, a killed worker, a crashed one, a restart of
# everything. Prints each step with its time, and leaves nothing behind.
#
# Where no engine runs, root gets one for the test (compose-engine.sh), with stand-ins for the images of registries
# (compose-images.sh). The programs are built outside, or taken from the folder RALPH_PROGRAMS. KEEP=1 leaves all of it running
# after a failure, to look at.
set -euo pipefail
cd "${0%/*}/.."
. scripts/install.sh
. scripts/compose-engine.sh
. scripts/compose-images.sh

scratch=$(mktemp -d /tmp/ralph-compose.XXXXXX)
project=ralph-test-$$
programs=${RALPH_PROGRAMS:-${CARGO_TARGET_DIR:-$PWD/target}/debug}
ralph=$programs/ralph-coordinator
# Any free port.
export RALPH_PORT=0 COMPOSE_PROJECT_NAME=$project
unset RALPH_DATA RALPH_REPO RALPH_BASE

steps=()
# `step WORDS FUNCTION`
step() {
    printf '\n%s: %s\n' "${0##*/}" "$1" >&2
    local begin=$EPOCHREALTIME
    "$2"
    steps+=("$(awk -v a="$begin" -v b="$EPOCHREALTIME" -v words="$1" 'BEGIN { printf "%6.1f s  %s", b - a, words }')")
}

run_compose() {
    "${compose[@]}" --progress quiet --file docker-compose.yml --file deploy/compose-test.yml "$@"
}

containers() {
    docker ps --all --quiet --filter "label=com.docker.compose.project=$project" "$@"
}

finish() {
    local status=$?
    trap - EXIT
    # Whatever fails here, the rest is tried.
    set +e
    if ((status != 0)) && [[ -n ${compose:-} ]]; then
        run_compose ps --all >&2
        run_compose logs --no-color --tail 40 >&2
        if [[ -n ${KEEP:-} ]]; then
            say "left running: DOCKER_HOST=${DOCKER_HOST:-} COMPOSE_PROJECT_NAME=$project"
            exit "$status"
        fi
        run_compose --profile demo down --volumes --timeout 5 >&2
    fi
    stop_engine
    rm -rf "$scratch"
    exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

# `until_true SECONDS WHAT COMMAND…`
until_true() {
    local deadline=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        ((SECONDS < deadline)) || fail "waited too long until $what"
        sleep 0.2
    done
}

engine() {
    start_engine "$scratch/engine"
    find_compose
}

# The files alone are enough: nothing has to be made by hand before.
files() { "${compose[@]}" --file docker-compose.yml --profile demo --profile observe config --quiet; }

images() { quietly run_compose --profile demo build; }

# The one command of deploy/README.md, from nothing to Complete.
demo() {
    run_compose run --rm --no-TTY demo
    export RALPH_URL RALPH_TOKEN
    RALPH_URL=http://$(run_compose port coordinator 7226)
    RALPH_TOKEN=$(run_compose exec --no-TTY coordinator cat /run/ralph/token)
}

up() {
    run_compose up --detach --wait --wait-timeout 180 --no-build
    run_compose ps >&2
    # Inside and outside, the command line finds the coordinator.
    run_compose exec --no-TTY coordinator ralph feature list
    "$ralph" feature list
}

service_of() { docker inspect --format '{{index .Config.Labels "com.docker.compose.service"}}' "$1"; }

# No root, nothing that can be written but volumes, no port beyond loopback, and workers that may only speak as workers.
hardening() {
    local id user read_only hosts host
    for id in $(containers); do
        # It has ended, and could do nothing but give files away.
        [[ $(service_of "$id") != secrets ]] || continue
        read -r user read_only hosts < <(docker inspect --format \
            '{{.Config.User}} {{.HostConfig.ReadonlyRootfs}} {{range .HostConfig.PortBindings}}{{range .}}{{.HostIp}} {{end}}{{end}}' "$id")
        [[ $user != 0* && $user != root && $read_only == true ]] || fail "$id runs as $user, read-only: $read_only"
        for host in $hosts; do
            [[ $host == 127.0.0.1 ]] || fail "$id publishes a port on $host"
        done
    done
    if curl --silent --fail --output /dev/null "$RALPH_URL/api/v1/status"; then
        fail "the API answers without a token"
    fi
    run_compose exec --no-TTY worker bash -s <scripts/compose-broker-rights.sh
    [[ $(run_compose exec --no-TTY worker stat --format '%a %u' /run/ralph/nats-url) == "400 10001" ]] ||
        fail "others may read the worker's address of the broker"
    # The folder can't be listed.
    run_compose exec --no-TTY worker bash -s <<'TRY' || fail "a worker sees secrets of others"
for other in database-url token read-token password nats.env grafana-password; do
    [[ ! -e /run/ralph/$other ]] || exit 1
done
TRY
}

# The repository is served to containers as git://git/NAME.git; this machine reaches it through a port on loopback.
repository() {
    export GIT_CONFIG_GLOBAL=$scratch/gitconfig
    git config --file "$GIT_CONFIG_GLOBAL" "url.git://$(run_compose port git 9418)/.insteadOf" git://git/
    git clone --quiet git://git/todo.git "$scratch/todo"
}

# `submit NAME TASKS FLAGS…`
submit() {
    "$ralph" submit feature "$1" --tasks "$2" --repo git://git/todo.git --wait "${@:3}"
}

fetch_branch() { git -C "$scratch/todo" fetch --quiet git://git/todo.git "+ralph/$1:ralph/$1"; }

scale() {
    run_compose up --detach --wait --wait-timeout 180 --no-build --no-recreate --scale worker=3
    # The demo's worker still runs, in a pool of its own.
    until_true 30 "three workers and the demo's are ready" workers_are_ready 4
    "$ralph" worker list >&2
}

workers_are_ready() {
    [[ $("$ralph" worker list --output json | grep -c '"status": "ready"') == "$1" ]]
}

# A worker, other than those named, that works for the feature `parts`; a worker's name is its container's id.
busy_worker() {
    "$ralph" task list parts --status in_progress --output json >"$scratch/tasks" 2>&1 || return 1
    python3 -c '
import json, sys
for task in json.load(open(sys.argv.pop(1)))["items"]:
    session = task["session"]
    if session and session["kind"] == "work" and task["key"].startswith("part-") and session["worker"] not in sys.argv:
        print(session["worker"])
        break
else:
    sys.exit(1)' "$scratch/tasks" "$@"
}

second_feature() {
    local submitted vanished crashed
    submit parts deploy/compose-test.tasks.yaml --no-verify &
    submitted=$!
    until_true 60 "a worker has work" busy_worker >"$scratch/busy"
    vanished=$(<"$scratch/busy")
    docker kill "$vanished" >/dev/null
    say "killed the container of worker $vanished in a session, for good"
    until_true 60 "another worker has work" busy_worker "$vanished" >"$scratch/busy"
    crashed=$(<"$scratch/busy")
    # The shell goes with the container that it is in.
    docker exec "$crashed" bash -c 'for comm in /proc/[0-9]*/comm; do
        [[ $(<"$comm") != ralph-worker ]] || { pid=${comm#/proc/} && kill -KILL "${pid%/comm}"; }
    done' || true
    say "killed the process of worker $crashed in a session; its container starts again"
    wait "$submitted"
    until_true 30 "the crashed worker's container runs again" is_restarted "$crashed"
    fetch_branch parts
    check_parts
}

is_restarted() { [[ $(docker inspect --format '{{.RestartCount}} {{.State.Health.Status}}' "$1") == [1-9]*" healthy" ]]; }

# Each of the 11 tasks landed once, and the last one saw the work of all.
check_parts() {
    local landed tasks=11
    landed=$(git -C "$scratch/todo" log --format='%(trailers:key=Ralph-Task,valueonly)' ralph/parts | sed '/^$/d' | sort)
    [[ $(wc -l <<<"$landed") == "$tasks" && $(uniq <<<"$landed" | wc -l) == "$tasks" ]] ||
        fail "ralph/parts should hold each of $tasks tasks once: $landed"
    [[ $(git -C "$scratch/todo" show ralph/parts:log/all.txt | wc -l) == 8 ]] || fail "not all parts were put together"
    git -C "$scratch/todo" --no-pager log --format='%h %s (attempt %(trailers:key=Ralph-Attempt,valueonly,separator=))' \
        --grep Ralph-Task ralph/parts >&2
}

restart() {
    local id code service
    run_compose stop
    for id in $(containers --filter label=com.docker.compose.service=coordinator) \
        $(containers --filter label=com.docker.compose.service=worker); do
        read -r code service < <(docker inspect --format \
            '{{.State.ExitCode}} {{index .Config.Labels "com.docker.compose.service"}}' "$id")
        # 137: the one that was killed for good.
        [[ $code == 0 || $code == 137 && $service == worker ]] || fail "$service $id ended with status $code"
    done
    run_compose up --detach --wait --wait-timeout 180 --no-build --no-recreate --scale worker=3
    RALPH_URL=http://$(run_compose port coordinator 7226)
    "$ralph" feature list
}

down() {
    run_compose --profile demo down --volumes
    local left
    left=$(containers; for kind in volume network; do
        docker "$kind" ls --quiet --filter "label=com.docker.compose.project=$project"
    done)
    [[ -z $left ]] || fail "left behind: $left"
    [[ -n $engine_is_ours ]] || docker image rm ralph-nats:test ralph-coordinator:test ralph-demo:test >/dev/null
}

step "starting an engine" engine
step "building the programs" prepare_programs
step "making the images that others are built on" prepare_bases
step "reading the files as they are in a clone" files
step "building the images" images
step "the example, from nothing to Complete" demo
step "starting everything" up
step "checking users, ports and rights" hardening
step "cloning the repository" repository
step "scaling to three workers" scale
step "a feature under which one worker is killed and another crashes" second_feature
step "stopping everything and starting it again" restart
step "removing everything" down
step "stopping the engine" stop_engine

printf '\n%s: all of it worked; how long each step took:\n' "${0##*/}"
printf '%s\n' "${steps[@]}"
