# The control plane. Build from the repository's root:
#   docker build -f docker/control-plane.Dockerfile -t dayzero/control-plane .
ARG BASE=python:3.11-slim
FROM ${BASE} AS wheel
WORKDIR /source
COPY pyproject.toml README.md constraints.txt ./
COPY platform platform
COPY flows flows
COPY migrations migrations
COPY docker docker
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM ${BASE}
# worker: with torch, so that the cpu platform is served here too. Empty: the control plane alone (DAYZERO_PLATFORMS says whom it serves).
ARG EXTRAS=
# For machines without an NVIDIA card: --build-arg INDEX=https://download.pytorch.org/whl/cpu
ARG INDEX=
COPY --from=wheel /wheels /wheels
COPY constraints.txt /wheels/constraints.txt
RUN pip install --no-cache-dir --constraint /wheels/constraints.txt ${INDEX:+--extra-index-url "$INDEX"} \
        "$(ls /wheels/*.whl)${EXTRAS:+[$EXTRAS]}" \
    && rm -rf /wheels \
    && useradd --create-home dayzero \
    && install -d -o dayzero /data
USER dayzero
WORKDIR /data
ENV DAYZERO_DATA_DIR=/data DAYZERO_HOST=0.0.0.0
VOLUME /data
EXPOSE 8711 4200
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8711/healthz', timeout=4)"]
# exec form: SIGTERM reaches dayzero, which stops what it started.
ENTRYPOINT ["dayzero"]
CMD ["up"]
