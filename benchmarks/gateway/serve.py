"""`python -m benchmarks.gateway.serve UPSTREAM --port PORT`: the gateway as its settings say, over one vLLM server at UPSTREAM."""

from __future__ import annotations

import argparse

from agents.model_folder import model_folder
from agents.vllm_engine.engine import VllmEngine
from agents.vllm_engine.model import read_model
from service.app import create_app
from service.server import Server
from service.settings import read_settings

RANK = 16


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("upstream")
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    settings = read_settings().model_copy(update={"port": given.port})
    engine = VllmEngine(given.upstream, read_model(model_folder(settings.model), RANK))
    Server(create_app(settings, engine=engine), settings).run()


if __name__ == "__main__":
    main()
