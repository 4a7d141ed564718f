# The trainer: rounds, relay and schedule. Build with TORCH_INDEX for a CPU-only torch.
FROM python:3.11-slim AS build
ARG TORCH_INDEX=""
WORKDIR /src
RUN python -m venv /venv
COPY constraints.txt ./
RUN if [ -n "$TORCH_INDEX" ]; then \
      /venv/bin/pip install --no-cache-dir --index-url "$TORCH_INDEX" -c constraints.txt torch; fi
COPY pyproject.toml README.md LICENSE ./
COPY bank ./bank
COPY agents ./agents
COPY service ./service
COPY trainer ./trainer
RUN /venv/bin/pip install --no-cache-dir -c constraints.txt ".[trainer]"

FROM python:3.11-slim
RUN useradd --create-home ratchet && install -d -o ratchet /data
COPY --from=build /venv /venv
ENV PATH=/venv/bin:$PATH RATCHET_DATA=/data OMP_NUM_THREADS=1
USER ratchet
VOLUME /data
# A round interrupted by SIGKILL resumes from its last step, so the default stop timeout is enough.
CMD ["python", "-m", "trainer.worker"]
