# shellcheck shell=sh
# Sourced by the scripts that generate passwords and tokens.

# 192 bits; a letter first, since nats-server reads what looks like a number as one.
secret() {
    printf 's%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"
}
