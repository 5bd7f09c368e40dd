#!/bin/sh
# Run once by docker-compose.yml before everything else: makes each password and token that is missing, and gives every service a volume
# with what it alone may read. A second run changes nothing. The folders below /secrets are the volumes.
set -eu
umask 077

# 192 bits; a letter first, since nats-server reads what looks like a number as one.
secret() { printf 's%s' "$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"; }

# `once NAME`: its value, made at the first call. They stand in a volume that no other service has.
once() {
    if ! [ -s "/secrets/all/$1" ]; then
        secret >"/secrets/all/$1.new"
        mv "/secrets/all/$1.new" "/secrets/all/$1"
    fi
    cat "/secrets/all/$1"
}

# `give VOLUME USER NAME TEXT`: a file that this user alone may read.
give() {
    chmod 0711 "/secrets/$1"
    rm -f "/secrets/$1/.$3"
    printf '%s' "$4" >"/secrets/$1/.$3"
    chmod 0400 "/secrets/$1/.$3"
    chown "$2:$2" "/secrets/$1/.$3"
    mv -f "/secrets/$1/.$3" "/secrets/$1/$3"
}

database=$(once database) coordinator=$(once coordinator) worker=$(once worker)
give postgres 999 password "$database"
give nats 10001 nats.env "NATS_COORDINATOR_PASSWORD=$coordinator NATS_WORKER_PASSWORD=$worker"
give coordinator 10001 database-url "postgres://ralph:$database@postgres:5432/ralph"
give coordinator 10001 nats-url "nats://coordinator:$coordinator@nats:4222"
give coordinator 10001 token "$(once token)"
give coordinator 10001 read-token "$(once read-token)"
give worker 10001 nats-url "nats://worker:$worker@nats:4222"
give observe 65534 read-token "$(once read-token)"
give observe 472 grafana-password "$(once grafana)"
