# A worker of one platform. BASE is the accelerator vendor's image: Python 3.11 or newer with its own torch.
#   docker build -f docker/runner.Dockerfile --build-arg BASE=VENDOR-IMAGE@sha256:… -t dayzero/runner .
ARG BASE=python:3.11-slim
FROM ${BASE} AS wheel
WORKDIR /source
COPY pyproject.toml README.md ./
COPY platform platform
COPY flows flows
COPY migrations migrations
COPY docker docker
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM ${BASE}
ARG INDEX=
# What the base brings (torch above all) is written down first and kept: pip must not put another torch over the vendor's.
COPY --from=wheel /wheels /wheels
RUN pip list --format=freeze | grep -iE '^torch(-npu|-mlu|-musa|-gaudi|vision|audio)?==' > /wheels/kept.txt || true; \
    pip install --no-cache-dir --constraint /wheels/kept.txt ${INDEX:+--extra-index-url "$INDEX"} \
        "$(ls /wheels/*.whl)[worker]" \
    && rm -rf /wheels \
    && useradd --create-home dayzero \
    && install -d -o dayzero /data
USER dayzero
WORKDIR /data
ENV DAYZERO_DATA_DIR=/data
VOLUME /data
# Needs DAYZERO_LEDGER_URL, DAYZERO_WORKER_TOKEN and PREFECT_API_URL; it holds no database credentials.
ENTRYPOINT ["dayzero", "worker", "join"]
CMD ["--platform", "cpu"]
