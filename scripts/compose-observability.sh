#!/bin/sh
# compose-observability.sh [FOLDER]: generates what deploy/observability/compose.yml needs before it starts, into `observability` in
# FOLDER, else in RALPH_COMPOSE_DIR, else in .ralph/compose. The coordinator has to run: it is asked for the token.
# A second run changes nothing.
#
#   grafana-password   of Grafana's user `admin`
#   metrics-token      of Prometheus: it may look, and nothing else
set -eu
umask 077

cd "$(dirname "$0")/.."
. scripts/secret.sh
folder=${1:-${RALPH_COMPOSE_DIR:-.ralph/compose}}
export RALPH_COMPOSE_DIR="$folder"

if ! [ -s "$folder/token" ]; then
    echo "compose-observability: there is no $folder/token; run scripts/compose-secrets.sh first" >&2
    exit 1
fi
if [ -e "$folder/observability" ]; then
    echo "compose-observability: the secrets are there already: $folder/observability" >&2
    exit 0
fi
new=$(mktemp -d "$folder/observability.XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 1' INT TERM HUP

# shellcheck disable=SC2016 # Expanded in the container, where the token is.
make_token='RALPH_TOKEN=$(cat /run/secrets/token) ralph-coordinator --url http://127.0.0.1:7226 token create "$0" --role read'
# A name of its own each time: one that was lost can't be told again, but revoked (`token list`).
name=prometheus-$(od -An -N4 -tx1 /dev/urandom | tr -d ' \n')
if ! docker compose exec --no-TTY coordinator sh -c "$make_token" "$name" | tr -d '\n' >"$new/metrics-token" ||
    ! [ -s "$new/metrics-token" ]; then
    echo "compose-observability: the coordinator gave no token; does it run? (docker compose up --detach --wait)" >&2
    exit 1
fi
secret >"$new/grafana-password"
# Containers have users of their own, who read these; nobody else comes through the folder above them.
chmod 0755 "$new"
chmod 0444 "$new"/*

mv "$new" "$folder/observability"
echo "compose-observability: wrote $folder/observability; Grafana's password for \`admin\` is in grafana-password there" >&2
