#!/usr/bin/env bash
# Fails when a migration that landed was changed, renamed or removed, or when one is missing from migrations/CHECKSUMS.
# Databases remember the checksum (SHA-384) of each migration that they have, and refuse to migrate when it differs.
# Usage: scripts/migrations.sh [--add]
# --add appends the checksums of new migrations; it never changes a line.
set -euo pipefail
cd "${0%/*}/../migrations"

if [[ ${1:-} == --add ]]; then
    touch CHECKSUMS
    for file in *.sql; do
        grep -q "  $file\$" CHECKSUMS || sha384sum "$file" >>CHECKSUMS
    done
fi
if ! sha384sum --check --strict --quiet CHECKSUMS; then
    echo "A migration that is in migrations/CHECKSUMS was changed, renamed or removed: restore it, and write a new one." >&2
    exit 1
fi
if ! unlisted=$(diff <(awk '{ print $2 }' CHECKSUMS | sort) <(printf '%s\n' *.sql | sort)); then
    echo "Migrations that are not in migrations/CHECKSUMS (scripts/migrations.sh --add adds them):" >&2
    echo "$unlisted" >&2
    exit 1
fi
