# The daemon as a container: no shell tools of ours, no git program (pygit2 speaks git), no compiler.
#
# Made for a read-only root file system and a numeric user:
#   securityContext: {runAsNonRoot: true, readOnlyRootFilesystem: true, allowPrivilegeEscalation: false,
#                     capabilities: {drop: [ALL]}, seccompProfile: {type: RuntimeDefault}}
# Two folders must be writable; an emptyDir each is enough, for all state may be lost at any time:
#   /tmp                    short-lived files
#   /var/lib/gitops         the mirror of the repository and caches (setting state_dir)
# Mounted read-only, where the settings say so:
#   /etc/gitops/clusters    one kubeconfig per cluster (setting credentials_dir)
#   GITOPS_CONFIG           names a settings file; every setting also has a variable (docs/settings.md)

ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /src
COPY requirements.lock requirements-build.lock ./
RUN python -m venv /opt/gitops && /opt/gitops/bin/python -m pip install --require-hashes -r requirements.lock \
    && python -m venv /opt/build && /opt/build/bin/python -m pip install --require-hashes -r requirements-build.lock
COPY . .
RUN /opt/build/bin/python -m pip wheel --no-deps --no-build-isolation --wheel-dir /wheels . \
    && /opt/gitops/bin/python -m pip install --no-deps /wheels/*.whl \
    && /opt/gitops/bin/python -m pip uninstall --yes pip setuptools \
    && /opt/gitops/bin/gitops --help > /dev/null

FROM python:${PYTHON}-slim
LABEL org.opencontainers.image.title="gitops-reconciler" org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /opt/gitops /opt/gitops
RUN mkdir -p /var/lib/gitops && chown 65532:65532 /var/lib/gitops
ENV PATH=/opt/gitops/bin:$PATH \
    HOME=/var/lib/gitops \
    PYTHONUNBUFFERED=1 \
    MALLOC_TRIM_THRESHOLD_=131072 \
    PYTHONDONTWRITEBYTECODE=1 \
    GITOPS_STATE_DIR=/var/lib/gitops \
    GITOPS_CREDENTIALS_DIR=/etc/gitops/clusters \
    GITOPS_LISTEN=0.0.0.0:8080 \
    GITOPS_LOG__FORMAT=json
USER 65532:65532
WORKDIR /var/lib/gitops
EXPOSE 8080
# The daemon stops within 10 s of SIGTERM (setting shutdown_timeout): terminationGracePeriodSeconds 15 is enough.
ENTRYPOINT ["gitops"]
CMD ["run"]
