"""A real vLLM server on the CPU."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

from agents.model_folder import SHIPPED
from agents.vllm_engine.launch import Server
from service.demo.server import free_port

ROOT = Path(__file__).parents[1]
START_SECONDS = 600.0
TINY = SHIPPED / "tiny"


def find_python() -> str | None:
    """An interpreter with vLLM: RATCHET_VLLM_PYTHON, the Makefile's second environment, or this one."""
    for candidate in (os.environ.get("RATCHET_VLLM_PYTHON"), str(ROOT / ".venv-vllm" / "bin" / "python")):
        if candidate and Path(candidate).is_file():
            return candidate
    return sys.executable if importlib.util.find_spec("vllm") is not None else None


def plan() -> Server:
    """A server of the shipped base, small enough for two cores."""
    return Server(find_python() or "", TINY, free_port(), parallel=64, context=1024)


class VllmServer:
    """One server that may be killed and started again at the same address."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._folder = tempfile.TemporaryDirectory(prefix="vllm-")
        self._log = Path(self._folder.name) / "vllm.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Tied to this process: it dies when the tests are killed."""
        leash = [sys.executable, "-m", "service.leash", str(os.getpid())]
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(
                [*leash, *self.server.command()],
                env=self.server.environment(os.environ),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
            )

    def kill(self) -> None:
        """At once, with the worker processes: nobody says goodbye."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, 9)
            self._process.wait()

    def stop(self) -> None:
        """For good."""
        self.kill()
        self._folder.cleanup()

    def ensure_healthy(self) -> None:
        """Wait for a start in progress; start what was killed."""
        if self._process is None or self._process.poll() is not None:
            self.start()
        deadline = time.monotonic() + START_SECONDS
        while not self._healthy():
            if self._process is None or self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"vLLM did not start:\n{self._log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.2)

    def _healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.server.url}/health", timeout=5) as answer:  # noqa: S310 - our own server
                return answer.status == 200
        except (urllib.error.URLError, OSError):
            return False
