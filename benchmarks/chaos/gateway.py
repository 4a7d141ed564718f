"""Gateway: `ratchet up` as a process that can be killed and started again on the same data."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import httpx

from service.client import OPERATOR_KEY
from service.demo.server import free_port

READY_SECONDS = 60.0
PROGRAM = ("-m", "service.cli", "up", "--no-worker")
"""Arguments of the interpreter; the port comes after them."""


class Gateway:
    """One service process without a model (scripted replies) and without a worker, unless another `program` is given."""

    def __init__(
        self, folder: Path, ledger_url: str, port: int | None = None, program: Sequence[str] = PROGRAM
    ) -> None:
        self.port = port or free_port()
        self._folder = folder
        self._program = program
        self._environment = {
            **os.environ,
            "RATCHET_DATA": str(folder),
            "RATCHET_LEDGER_URL": ledger_url,
            "RATCHET_ENGINE": "scripted",
        }

    def __enter__(self) -> Self:
        self.start()
        self.ready()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        """Begin; returns at once."""
        command = [sys.executable, *self._program, "--port", str(self.port)]
        with (self._folder / "gateway.log").open("ab") as log:
            self.process = subprocess.Popen(command, env=self._environment, stdout=log, stderr=log)  # noqa: S603

    def ready(self) -> None:
        """Wait until it answers. Raises TimeoutError with the end of its log."""
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                if httpx.get(f"{self.url}/readyz", timeout=5).is_success:
                    return
            except httpx.TransportError:
                pass
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise TimeoutError((self._folder / "gateway.log").read_text()[-2000:])
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill -9."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=READY_SECONDS)

    def cpu_seconds(self) -> float:
        """Processor time that the running process has used (Linux)."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def headers(self) -> dict[str, str]:
        """An operator's authorization."""
        return {"Authorization": f"Bearer {(self._folder / OPERATOR_KEY).read_text().strip()}"}
