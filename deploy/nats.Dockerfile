# nats-server with Ralph's users and limits, and a store that the user it runs as may write.
FROM nats:2.15-alpine
RUN mkdir -p /data && chown 10001:10001 /data && chmod 0700 /data
COPY deploy/nats.conf /etc/nats/ralph.conf
VOLUME ["/data"]
EXPOSE 4222
USER 10001:10001
ENTRYPOINT ["nats-server"]
CMD ["--config", "/etc/nats/ralph.conf"]
