#!/usr/bin/env bash
# Drives the whole system with real agents, whose model is scripted and listens on loopback. The agents come from npm, by
# pinned version, into RALPH_AGENTS_DIR (default ~/.cache/ralph/agents; about 1 GB); the tests themselves need no network.
# Arguments go to the test program: names of tests, for instance.
set -euo pipefail
cd "${0%/*}/.."

agents=${RALPH_AGENTS_DIR:-$HOME/.cache/ralph/agents}
claude=(@agentclientprotocol/claude-agent-acp@0.100.0 node@22)
opencode=(opencode-ai@1.18.33)

# install FOLDER PACKAGE…: into a folder of its own, unless exactly these are there.
install() {
    local folder=$agents/$1 pinned="${*:2}"
    [[ -e $folder/pinned && $(<"$folder/pinned") == "$pinned" ]] && return
    command -v npm >/dev/null || {
        echo "test-agents: npm is missing; install Node.js 20 or newer" >&2
        exit 1
    }
    echo "test-agents: installing $pinned in $folder" >&2
    rm -rf "$folder"
    mkdir -p "$folder"
    echo '{"private":true}' >"$folder/package.json"
    npm install --prefix "$folder" --no-audit --no-fund --loglevel=error "${@:2}" >&2
    echo "$pinned" >"$folder/pinned"
}
install claude "${claude[@]}"
install opencode "${opencode[@]}"

cargo build --workspace --bins
# An agent's processes take up to 800 MB: one test at a time.
RALPH_REAL_AGENTS=$agents cargo test --workspace --test real_agents -- --include-ignored --test-threads 1 "$@"
