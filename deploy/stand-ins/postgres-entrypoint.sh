#!/bin/sh
# Makes the database when there is none, then becomes the server, as the official image's entrypoint does.
set -eu
umask 077

if ! [ -s "$PGDATA/PG_VERSION" ]; then
    if [ -n "${POSTGRES_PASSWORD_FILE:-}" ]; then
        POSTGRES_PASSWORD=$(cat "$POSTGRES_PASSWORD_FILE")
    fi
    if [ -z "${POSTGRES_PASSWORD:-}" ]; then
        echo "POSTGRES_PASSWORD is not set, and there is no default" >&2
        exit 1
    fi
    user=${POSTGRES_USER:-postgres}
    database=${POSTGRES_DB:-$user}
    password=$(mktemp)
    printf '%s\n' "$POSTGRES_PASSWORD" >"$password"
    initdb --pgdata "$PGDATA" --username "$user" --pwfile "$password" --auth-local trust --auth-host scram-sha-256 \
        --encoding UTF8 --locale C
    rm "$password"
    [ "$database" = postgres ] || printf 'create database "%s"\n' "$database" | postgres --single -D "$PGDATA" postgres
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
fi
exec "$@" -c listen_addresses='*' -c unix_socket_directories=/run/postgresql
