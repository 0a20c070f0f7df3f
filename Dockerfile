# Of both stages. A release pins it: --build-arg BASE=node:24-bookworm-slim@sha256:...
ARG BASE=node:24-bookworm-slim

# Build: type-strip and check once, keep only what runs.
FROM ${BASE} AS build
WORKDIR /app
COPY package.json package-lock.json .npmrc ./
COPY tools ./tools
# The optional packages are those of traces. tools/node brings a second Node, which goes again with the rest of development.
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN node_modules/.bin/tsc -p tsconfig.build.json && npm prune --omit=dev --ignore-scripts

FROM ${BASE}
LABEL org.opencontainers.image.title="onceway" \
      org.opencontainers.image.description="Idempotency-key gateway: a reverse proxy that makes any HTTP endpoint safe to retry" \
      org.opencontainers.image.licenses="Apache-2.0"
WORKDIR /app
# The network of a container is its own: both listeners are for whoever is let into it, the kubelet's probes among them.
# UPSTREAM=http://host:port alone starts it; a file at ONCEWAY_CONFIG is used where one is mounted.
# A default, since records must not move: a command of one's own goes by the dataDir of its file, as it always has.
ENV NODE_ENV=production \
    ONCEWAY_CONFIG=/etc/onceway/onceway.yaml \
    ONCEWAY_DEFAULT_DATA_DIR=/data \
    ONCEWAY_DEFAULT_HOST=0.0.0.0
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY package.json LICENSE ./
COPY migrations ./migrations
COPY schema ./schema
COPY src/http/console/assets ./src/http/console/assets
# The embedded store's file; unused with Postgres. Everything else may be read-only.
RUN mkdir -p /data && chown 65532:65532 /data
USER 65532:65532
VOLUME /data
EXPOSE 8080 8081
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["node", "dist/main.js", "healthcheck"]
ENTRYPOINT ["node", "--max-semi-space-size=32", "dist/main.js"]
CMD ["serve", "--data-dir", "/data"]
