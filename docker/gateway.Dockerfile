# The HTTP service. Torch-free by default: for an engine that answers over HTTP, or the scripted one.
# The embedded engine runs inside this process and needs EXTRAS=[trainer].
FROM python:3.11-slim AS build
ARG EXTRAS=""
# Optional wheel index with CPU builds of torch; pip's default build is CUDA.
ARG TORCH_INDEX=""
WORKDIR /src
RUN python -m venv /venv
COPY constraints.txt ./
RUN if [ -n "$EXTRAS" ] && [ -n "$TORCH_INDEX" ]; then \
      /venv/bin/pip install --no-cache-dir --index-url "$TORCH_INDEX" -c constraints.txt torch; fi
COPY pyproject.toml README.md LICENSE ./
COPY bank ./bank
COPY agents ./agents
COPY service ./service
COPY trainer ./trainer
RUN /venv/bin/pip install --no-cache-dir -c constraints.txt ".${EXTRAS}"

FROM python:3.11-slim
RUN useradd --create-home ratchet && install -d -o ratchet /data
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH RATCHET_DATA=/data RATCHET_HOST=0.0.0.0 OMP_NUM_THREADS=1
USER ratchet
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
  CMD ["python", "-c", "import httpx; httpx.get('http://127.0.0.1:8000/readyz').raise_for_status()"]
# exec form: SIGTERM reaches the service, which drains before it leaves.
CMD ["ratchet", "up", "--no-worker"]
