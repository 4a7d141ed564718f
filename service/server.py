"""Server: uvicorn with a stop that tells streams and records runs instead of cutting them off."""

from __future__ import annotations

import gc
import socket
import sys

import uvicorn
from fastapi import FastAPI

from service.logs import configure_logs
from service.settings import Settings
from service.state import State

SLACK_SECONDS = 5.0
"""For answers to leave after the last run ended."""

SWITCH_SECONDS = 0.0005
"""How long the ledger's threads wait for the event loop's: at Python's 5 ms a commit waits longer for its turn than for the disk."""


class Server(uvicorn.Server):
    """On SIGTERM: no new connections, runs may finish for a while, the rest ends as cancelled and on record."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        self._app = app
        stop = int(settings.drain_seconds + SLACK_SECONDS)
        super().__init__(
            uvicorn.Config(
                app,
                host=settings.host,
                port=settings.port,
                log_config=None,
                access_log=False,
                server_header=False,
                timeout_graceful_shutdown=stop,
            )
        )

    def run(self, sockets: list[socket.socket] | None = None) -> None:
        """Answer until SIGTERM or SIGINT, as the only thing that this process does."""
        configure_logs()
        sys.setswitchinterval(SWITCH_SECONDS)
        super().run(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Spare the garbage collector what lives as long as the process: looking through it takes 0.1 s each time."""
        await super().startup(sockets)
        gc.collect()
        gc.freeze()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End runs first: uvicorn would wait for open streams, then cut them."""
        state: State | None = getattr(self._app.state, "ratchet", None)
        if state is not None:
            await state.runs.drain(state.settings.drain_seconds)
        await super().shutdown(sockets)
