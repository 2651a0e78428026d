# syntax=docker/dockerfile:1
# Two images from one file:
#   docker build -t firezone-reconcile .                              the command and the controller; uid 65532, no capability
#   docker build -t firezone-reconcile:enforcement --target enforcement .   the same with nftables, to look at the kernel
# Another base: --build-arg NODE=… (Node 20.19 or later on Debian) and --build-arg BASE=… (a Debian of the same release).
# By digest, so that what was tested is what is built; .github/dependabot.yml proposes newer ones.
ARG NODE=node:22-bookworm-slim@sha256:43ac6c60b8f89723f746e8a92ce91abd5017e627ce1ddfe4238355d3a30b772c
ARG BASE=debian:bookworm-slim@sha256:96e378d7e6531ac9a15ad505478fcc2e69f371b10f5cdf87857c4b8188404716

FROM ${NODE} AS build
WORKDIR /src
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY tsconfig.json ./
COPY scripts/build.mjs scripts/
COPY ci ci
COPY src src
RUN npm run build && node dist/reconcile.js --version

FROM ${BASE} AS common
# git and ssh for Git sources, tini to reap what they leave behind: Node as process 1 does not.
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates git openssh-client tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*
COPY --from=build /usr/local/bin/node /usr/local/bin/node
COPY --from=build /src/dist /opt/reconcile
RUN groupadd --gid 65532 reconcile \
 && useradd --uid 65532 --gid 65532 --no-create-home --home-dir /var/lib/reconcile --shell /usr/sbin/nologin reconcile \
 && install -d -o 65532 -g 65532 -m 0700 /var/lib/reconcile \
 && chmod 0755 /opt/reconcile/reconcile.js \
 && ln -s /opt/reconcile/reconcile.js /usr/local/bin/reconcile \
 && node /opt/reconcile/reconcile.js --version
ENV NODE_ENV=production HOME=/var/lib/reconcile
WORKDIR /var/lib/reconcile
# The only folder that is written, beside /tmp: the clone of a Git source, the journal, the record of what was applied.
VOLUME /var/lib/reconcile
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
  CMD ["/usr/local/bin/reconcile", "status", "--probe"]
ENTRYPOINT ["/usr/bin/tini", "--", "/usr/local/bin/reconcile"]
CMD ["--watch", "/manifests", "--state-dir=/var/lib/reconcile", "--listen=127.0.0.1:8080"]
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="firezone-reconcile" \
      org.opencontainers.image.description="GitOps reconciler for Firezone 0.7: firewall rules and configuration as YAML in Git" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"

# Looks at the kernel's packet filter (docs/how-to/enforcement.md): uid 0, and every capability dropped but NET_ADMIN by whoever runs it.
FROM common AS enforcement
USER 0
RUN apt-get update \
 && apt-get install -y --no-install-recommends nftables \
 && rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/*

FROM common AS runtime
USER 65532:65532
