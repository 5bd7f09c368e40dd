# shellcheck shell=bash
# Run inside a worker's container by compose-test.sh: asks the broker, with the worker's own password, for what no worker may
# have, and fails unless each is refused and what every worker needs is not.
set -euo pipefail

url=$(<"$NATS_URL_FILE")
login=${url#nats://}
user=${login%%:*} password=${login#*:}
password=${password%%@*}

exec 3<>/dev/tcp/nats/4222
say() { printf '%s\r\n' "$@" >&3; }

say "CONNECT {\"verbose\":false,\"user\":\"$user\",\"pass\":\"$password\"}"
# What a coordinator says, what other workers report, and a stream of its own.
say "PUB ralph.control.another 2" "{}"
say "PUB ralph.tickets.default 2" "{}"
# shellcheck disable=SC2016 # That is its name.
say 'PUB $JS.API.STREAM.DELETE.RALPH_REPORTS 2' "{}"
say "SUB ralph.reports 1"
say "SUB ralph.claim 2"
say "PING"

refused=()
while IFS= read -r -t 10 line <&3; do
    line=${line%$'\r'}
    case $line in
    PONG) break ;;
    -ERR*) refused+=("$line") ;;
    esac
done
if [[ ${#refused[@]} != 5 || $line != PONG ]]; then
    echo "the broker should refuse five things to a worker, and refused:" "${refused[@]}" >&2
    exit 1
fi
