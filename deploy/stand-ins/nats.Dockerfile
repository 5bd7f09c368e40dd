# Stands in for nats:2.15-alpine where no registry is reachable: nats-server of scripts/setup.sh, and busybox' wget.
FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends busybox \
    && rm -rf /var/lib/apt/lists/* \
    && ln -s /bin/busybox /usr/local/bin/wget
COPY nats-server /usr/local/bin/
ENTRYPOINT ["nats-server"]
