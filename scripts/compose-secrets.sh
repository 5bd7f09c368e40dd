#!/bin/sh
# compose-secrets.sh [FOLDER]: generates what docker-compose.yml needs before it starts: a password for each user of Postgres
# and NATS, and the token of the API, into FOLDER, else RALPH_COMPOSE_DIR, else .ralph/compose. A relative name is seen from
# the compose file, as docker compose does. A second run changes no secret.
#
#   postgres.env nats.env coordinator.env worker.env   what each service alone is told
#   token                                              of the API, with all roles
#   api.json                                           address and token, for `ralph-coordinator --data FOLDER`
#   agent.env                                          yours: the agent's keys, and how workers run
#   worker/.ralph.toml  worker/git/config              yours: agents, and how workers log in to repositories
set -eu
umask 077

cd "$(dirname "$0")/.."
. scripts/secret.sh
folder=${1:-${RALPH_COMPOSE_DIR:-.ralph/compose}}
url=http://127.0.0.1:${RALPH_PORT:-7226}

# `api FOLDER`: follows RALPH_PORT.
api() {
    printf '{ "url": "%s", "token": "%s" }\n' "$url" "$(cat "$1/token")" >"$1/api.json"
}

if [ -e "$folder" ]; then
    if ! [ -s "$folder/token" ]; then
        echo "compose-secrets: $folder was not made by this script; name another folder, or remove this one" >&2
        exit 1
    fi
    api "$folder"
    echo "compose-secrets: the secrets are there already: $folder" >&2
    exit 0
fi

mkdir -p "$(dirname "$folder")"
new=$(mktemp -d "$folder.XXXXXX")
trap 'rm -rf "$new"' EXIT
trap 'exit 1' INT TERM HUP

database=$(secret) coordinator=$(secret) worker=$(secret)
cat >"$new/postgres.env" <<END
POSTGRES_USER=ralph
POSTGRES_DB=ralph
POSTGRES_PASSWORD=$database
END
cat >"$new/nats.env" <<END
NATS_COORDINATOR_PASSWORD=$coordinator
NATS_WORKER_PASSWORD=$worker
END
cat >"$new/coordinator.env" <<END
DATABASE_URL=postgres://ralph:$database@postgres:5432/ralph
NATS_URL=nats://coordinator:$coordinator@nats:4222
END
cat >"$new/worker.env" <<END
NATS_URL=nats://worker:$worker@nats:4222
END
secret >"$new/token"
api "$new"

cat >"$new/agent.env" <<'END'
# What workers and their agents are told. Agents get only the variables that RALPH_PASS_ENV names.
#ANTHROPIC_API_KEY=
RALPH_PASS_ENV=ANTHROPIC_API_KEY
# Sessions at once in one worker, and how many seconds they may go on when it is stopped.
RALPH_SLOTS=1
RALPH_DRAIN_SECONDS=60
END
mkdir -p "$new/worker/git"
cat >"$new/worker/.ralph.toml" <<'END'
# Agents of the workers, who see this folder as /etc/ralph. What is named here must be in their image.
#[agent]
#preset = "claude"
END
cat >"$new/worker/git/config" <<'END'
# git's configuration in workers. Put the files that are named here beside it, readable by all: the folder is closed further up.
#[credential]
#	helper = store --file /etc/ralph/git/credentials
#[core]
#	sshCommand = ssh -i /etc/ralph/git/key -o UserKnownHostsFile=/etc/ralph/git/known_hosts
#[user]
#	name = Ralph
#	email = ralph@example.org
END
# Containers have users of their own, who read these; nobody else comes through the folder above them.
chmod 0444 "$new/token"
chmod -R a+rX "$new/worker"

mv "$new" "$folder"
echo "compose-secrets: wrote $folder; put your agent's key into $folder/agent.env" >&2
