#!/usr/bin/env bash
# `scripts/sqlx.sh`: writes the query cache in .sqlx anew. `scripts/sqlx.sh --check`: fails if that would change it.
#
# sqlx's macros write what they learn from a live database into SQLX_OFFLINE_DIR, so sqlx-cli is not needed.
set -euo pipefail
cd "${0%/*}/.."

new=$(mktemp -d)
trap 'rm -rf "$new"' EXIT
# The macros run only when their file is compiled.
touch coordinator/src/lib.rs
SQLX_OFFLINE=false SQLX_OFFLINE_DIR=$new scripts/with-postgres.sh cargo check --quiet -p ralph-coordinator --all-targets

if [[ ${1:-} == --check ]]; then
    mkdir -p .sqlx
    if ! diff -r .sqlx "$new" >&2; then
        echo "the query cache is out of date: run \`make sqlx\` and commit .sqlx" >&2
        exit 1
    fi
    echo "the query cache is up to date ($(find .sqlx -name 'query-*.json' | wc -l) queries)"
else
    rm -rf .sqlx
    mkdir .sqlx
    find "$new" -name 'query-*.json' -exec cp {} .sqlx/ \;
    echo "wrote $(find .sqlx -name 'query-*.json' | wc -l) queries into .sqlx"
fi
