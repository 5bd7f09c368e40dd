#!/bin/sh
# Builds what a release consists of for this machine, in target/release-archives: an archive of the programs with manual pages and
# completions, the list of their components (CycloneDX), checksums, and container images where Docker is at hand.
set -eu
cd "${0%/*}/.."
. scripts/install.sh

cyclonedx=0.5.9
out=$PWD/target/release-archives
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -1)
name=ralph-$version-$(rustc -vV | sed -n 's/^host: //p')

make_scratch
PREFIX=$scratch/$name scripts/install-programs.sh
cp README.md LICENSE CHANGELOG.md "$scratch/$name/"
mkdir -p "$out"
tar -C "$scratch" --sort=name --owner=0 --group=0 --numeric-owner -czf "$out/$name.tar.gz" "$name"

tool=$servers/cargo-cyclonedx-$cyclonedx/bin/cargo-cyclonedx
if [ ! -x "$tool" ]; then
    say "building cargo-cyclonedx $cyclonedx from crates.io"
    cargo install --quiet --locked --version "$cyclonedx" --root "${tool%/bin/*}" cargo-cyclonedx ||
        fail "cargo-cyclonedx could not be installed: install version $cyclonedx and run this again"
fi
for program in cli/ralph coordinator/ralph-coordinator worker/ralph-worker; do
    "$tool" cyclonedx --quiet --format json --describe binaries --manifest-path "${program%/*}/Cargo.toml"
    mv "${program}_bin.cdx.json" "$out/${program#*/}-$version.cdx.json"
done
find . -name '*.cdx.json' -not -path './target/*' -delete

(cd "$out" && sha256sum "$name.tar.gz" ./*"$version.cdx.json" >"$name.sha256")
if docker info >/dev/null 2>&1; then
    docker compose build
    for image in ralph-coordinator ralph-worker; do docker tag "$image" "$image:$version"; done
    say "built the images ralph-coordinator:$version and ralph-worker:$version"
else
    say "no container images: Docker doesn't answer"
fi
say "$out holds:"
ls -l "$out"
