"""The demo's own service: `ratchet up` as a child process on a free port."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from service.client import RatchetClient, operator_key

READY_SECONDS = 180.0
STOP_SECONDS = 30.0
POLL_SECONDS = 0.2
LOG_LINES = 15
PASSED_ON = ("RATCHET_MODEL", "RATCHET_EMBEDDER", "RATCHET_ROUND")
"""Settings of the caller that a demo respects; all others could point it at real data."""


class ServerFailed(Exception):
    """The service did not come up; the message ends with its log."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running service."""

    url: str
    key: str
    data: Path
    process: subprocess.Popen[bytes]


@contextlib.contextmanager
def serving(data: Path, suite: str) -> Iterator[Server]:
    """A service on `data` that can answer; stopped at the end, with everything it started."""
    port = free_port()
    log_path = data / "logs" / "up.log"
    log_path.parent.mkdir(parents=True, exist_ok=True)
    command = [
        sys.executable,
        "-m",
        "service.leash",
        str(os.getpid()),
        sys.executable,
        "-m",
        "service.cli",
        "up",
        "--data",
        str(data),
        "--port",
        str(port),
        "--suite",
        suite,
    ]
    with log_path.open("ab") as log:
        process = subprocess.Popen(  # noqa: S603  # our own command line
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment(os.environ),
            start_new_session=True,
        )
    try:
        url = f"http://127.0.0.1:{port}"
        yield Server(url, _key_when_ready(url, data, process, log_path), data, process)
    finally:
        _stop(process)


def environment(outer: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without the settings that a demo must not inherit."""
    return {name: value for name, value in outer.items() if not name.startswith("RATCHET_") or name in PASSED_ON}


def free_port() -> int:
    """A port of the loopback interface that nobody listens on right now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _key_when_ready(url: str, data: Path, process: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        key = operator_key(data)
        if key is not None and _ready(url, key):
            return key
        time.sleep(POLL_SECONDS)
    tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:])
    raise ServerFailed(f"ratchet up did not become ready; the end of {log}:\n{tail}")


def _ready(url: str, key: str) -> bool:
    with RatchetClient(url, key) as client:
        return client.ready()


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
