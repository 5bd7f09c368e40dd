#!/usr/bin/env bash
# Drives the whole system with real agents, whose model is scripted and listens on loopback. The agents come from npm and PyPI, by
# pinned version, into RALPH_AGENTS_DIR (default ~/.cache/ralph/agents; about 4 GB); the tests themselves need no network. Agents in
# Python need RALPH_AGENTS_PYTHON (default: the newest python3 on the PATH), 3.12 or later.
# Arguments go to the test program: names of tests, for instance.
set -euo pipefail
cd "${0%/*}/.."

agents=${RALPH_AGENTS_DIR:-$HOME/.cache/ralph/agents}
python=${RALPH_AGENTS_PYTHON:-}

need() {
    echo "test-agents: $1" >&2
    exit 1
}

# npm FOLDER PACKAGE…, python FOLDER PACKAGE…: into a folder of its own, unless exactly these are there.
is_there() {
    [[ -e $agents/$1/pinned && $(<"$agents/$1/pinned") == "${*:2}" ]]
}
begin() {
    echo "test-agents: installing ${*:2} in $agents/$1" >&2
    rm -rf "${agents:?}/$1"
    mkdir -p "$agents/$1"
}
from_npm() {
    is_there "$@" && return
    command -v npm >/dev/null || need "npm is missing; install Node.js 20 or newer"
    begin "$@"
    echo '{"private":true}' >"$agents/$1/package.json"
    npm install --prefix "$agents/$1" --no-audit --no-fund --loglevel=error "${@:2}" >&2
    echo "${*:2}" >"$agents/$1/pinned"
}
from_pypi() {
    is_there "$@" && return
    for candidate in $python python3.14 python3.13 python3.12 python3; do
        "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 12))' 2>/dev/null && break
        candidate=
    done
    [[ -n $candidate ]] || need "Python 3.12 or later is missing; name one in RALPH_AGENTS_PYTHON"
    begin "$@"
    "$candidate" -m venv "$agents/$1"
    "$agents/$1/bin/pip" install --quiet "${@:2}" >&2
    echo "${*:2}" >"$agents/$1/pinned"
}

# Those that work with the scripted model.
from_npm claude @agentclientprotocol/claude-agent-acp@0.100.0 node@22
from_npm opencode opencode-ai@1.18.33
from_npm gemini @google/gemini-cli@0.61.0
from_npm qwen @qwen-code/qwen-code@0.24.4 node@22
from_pypi fast-agent fast-agent-acp==0.9.30
from_npm codex @agentclientprotocol/codex-acp@2.6.0 node@22
from_npm codex-0.16 @zed-industries/codex-acp@0.16.0
from_pypi vibe mistral-vibe==2.26.1
# Those that shake hands, or say that they want a login.
from_npm copilot @github/copilot@1.0.102 node@22
from_npm auggie @augmentcode/auggie@0.36.0 node@22
from_npm cline cline@3.0.65 node@22
from_npm kimi @moonshot-ai/kimi-code@2.1.0 node@22

cargo build --workspace --bins
# An agent's processes take up to 800 MB: one test at a time.
RALPH_REAL_AGENTS=$agents cargo test --workspace --test real_agents -- --include-ignored --test-threads 1 "$@"
