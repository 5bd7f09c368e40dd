#!/bin/sh
# Installs the programs, with their manual pages and completions, below PREFIX (~/.local, for root /usr/local); with `remove`,
# takes away what it installed. PROFILE=dev installs what `make build` builds: sooner there, and slower at work.
set -eu
cd "${0%/*}/.."

say() { printf 'install: %s\n' "$*" >&2; }

if [ -z "${PREFIX:-}" ]; then
    if [ "$(id -u)" = 0 ]; then PREFIX=/usr/local; else PREFIX=$HOME/.local; fi
fi
programs="ralph ralph-coordinator ralph-worker"
bin=$PREFIX/bin
man=$PREFIX/share/man/man1
bash=$PREFIX/share/bash-completion/completions
zsh=$PREFIX/share/zsh/site-functions
fish=$PREFIX/share/fish/vendor_completions.d

if [ "${1:-}" = remove ]; then
    rm -f "$man/ralph.1" "$man"/ralph-*.1
    for program in $programs; do
        rm -f "$bin/$program" "$bash/$program" "$zsh/_$program" "$fish/$program.fish"
    done
    say "removed the programs, manual pages and completions below $PREFIX"
    exit 0
fi

profile=${PROFILE:-release}
case $profile in
dev) built=debug ;;
*) built=$profile ;;
esac
cargo build --locked --profile "$profile" -p ralph-cli -p ralph-coordinator -p ralph-worker --bins
target=$(cargo metadata --no-deps --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/$built

mkdir -p "$bin" "$man" "$bash" "$zsh" "$fish"
for program in $programs; do
    # In the place of the old file in one step, since that may be running.
    cp "$target/$program" "$bin/.$program.new"
    chmod 755 "$bin/.$program.new"
    # What only a debugger reads is most of it.
    if command -v strip >/dev/null 2>&1; then strip -S "$bin/.$program.new"; fi
    mv -f "$bin/.$program.new" "$bin/$program"
done
rm -f "$man/ralph.1" "$man"/ralph-*.1
for program in ralph ralph-coordinator; do "$bin/$program" man "$man" >/dev/null; done
for program in $programs; do
    "$bin/$program" completions bash >"$bash/$program"
    "$bin/$program" completions zsh >"$zsh/_$program"
    "$bin/$program" completions fish >"$fish/$program.fish"
done
say "$("$bin/ralph" --version), with ralph-coordinator and ralph-worker, is in $bin, with manual pages and completions in $PREFIX/share"
case :$PATH: in
*":$bin:"*) ;;
*) say "$bin is not in your PATH: add it, with \`export PATH=$bin:\$PATH\` in your shell's profile" ;;
esac
