# shellcheck shell=bash
# Sourced by compose-test.sh, after compose-engine.sh: the images that the test's own are built on, and the programs in them.
# shellcheck disable=SC2154 # Variables that who sources this sets.

# Takes the programs from the folder $programs, building them if it isn't told, and puts them, without their debugging symbols,
# where deploy/Dockerfile expects them.
prepare_programs() {
    local oldest=2.36 here
    here=$(getconf GNU_LIBC_VERSION | awk '{ print $2 }')
    if [[ $(printf '%s\n' "$oldest" "$here" | sort -V | tail -n 1) != "$oldest" ]]; then
        fail "programs that are built here need glibc $here, and the images have $oldest: run this on Debian 12 or older"
    fi
    [[ -n ${RALPH_PROGRAMS:-} ]] || nice cargo build --quiet --locked --package ralph-cli --package ralph-coordinator --package ralph-worker --package ralph-tests --bins
    local bin=target/compose/bin program
    mkdir -p "$bin"
    for program in ralph ralph-coordinator ralph-worker ralph-scripted-agent; do
        # Only a program that changed makes a new layer.
        strip --strip-debug --preserve-dates -o "$scratch/$program" "$programs/$program"
        cmp --quiet "$scratch/$program" "$bin/$program" || cp -p "$scratch/$program" "$bin/$program"
    done
}

# Where the engine is the test's own and no registry is within reach: images from Debian's packages and the servers of
# scripts/setup.sh, under the names that the Dockerfiles use. An engine of the user's pulls the real ones.
prepare_bases() {
    if [[ -z $engine_is_ours ]]; then
        say "the engine pulls what it has not got of debian, postgres and nats"
        return
    fi
    local archive=target/compose/bookworm.tar
    [[ -s $archive ]] || debian_archive "$archive"
    docker import --change 'CMD ["bash"]' "$archive" debian:bookworm-slim >/dev/null
    stand_in postgres:18-bookworm postgres "server=$(newest "$servers"/postgres-*)" \
        postgres-entrypoint.sh=deploy/stand-ins/postgres-entrypoint.sh
    stand_in nats:2.15-alpine nats "nats-server=$(newest "$servers"/nats-server-*)/nats-server"
}

debian_archive() {
    have debootstrap || { say "installing debootstrap"; packages debootstrap - - -; } || fail "debootstrap could not be installed"
    local root=$scratch/debian
    quietly debootstrap --variant=minbase bookworm "$root"
    # What the real slim image hasn't got either.
    rm -rf "$root"/var/cache/apt/archives/*.deb "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}
    mkdir -p "${1%/*}"
    tar --directory "$root" --create --file "$1.partial" .
    mv "$1.partial" "$1"
    rm -rf "$root"
}

newest() { printf '%s\n' "$@" | sort -V | tail -n 1; }

# `stand_in IMAGE DOCKERFILE NAME=PATH…`: builds deploy/stand-ins/DOCKERFILE.Dockerfile with those files beside it.
stand_in() {
    local image=$1 file=deploy/stand-ins/$2.Dockerfile context=$scratch/context pair
    shift 2
    mkdir "$context"
    for pair; do
        cp -a "${pair#*=}" "$context/${pair%%=*}"
    done
    quietly docker build --tag "$image" --file "$file" "$context"
    rm -rf "$context"
}
