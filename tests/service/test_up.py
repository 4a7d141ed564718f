"""`ratchet up` as a person starts it: real processes, a scripted model, the real trainer beside it."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.client import RatchetClient, operator_key
from service.demo.server import free_port
from tests.service.waiting import PATIENCE_SECONDS, until


def start(data: Path, port: int, *options: str, **settings: str) -> subprocess.Popen[bytes]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RATCHET_")}
    environment |= {"RATCHET_ENGINE": "scripted", "RATCHET_EMBEDDER": "hashing", **settings}
    command = [sys.executable, "-m", "service.cli", "up", "--data", str(data), "--port", str(port), *options]
    with (data / "up.log").open("wb") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


@pytest.fixture
def process() -> Iterator[list[subprocess.Popen[bytes]]]:
    """What a test put in is gone when it ends, however it ends."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for each in started:
        each.kill()
        each.wait()


def ready(data: Path, port: int) -> bool:
    key = operator_key(data)
    if key is None:
        return False
    with RatchetClient(f"http://127.0.0.1:{port}", key) as client:
        return client.ready()


def starts(data: Path) -> int:
    log = data / "logs" / "worker.log"
    return log.read_text().count("worker ready") if log.is_file() else 0


def gone(pid: int) -> bool:
    return not Path(f"/proc/{pid}").exists()


@pytest.mark.slow
def test_killed_worker_is_replaced_while_the_service_answers_and_sigterm_ends_both(
    tmp_path: Path, process: list
) -> None:
    port = free_port()
    process.append(up := start(tmp_path, port))
    until(lambda: ready(tmp_path, port))
    pid_file = tmp_path / "logs" / "worker.pid"
    until(lambda: starts(tmp_path) == 1)
    first = int(pid_file.read_text())
    os.kill(first, signal.SIGKILL)
    until(lambda: pid_file.is_file() and pid_file.read_text() not in {"", str(first)})
    assert ready(tmp_path, port)
    second = int(pid_file.read_text())
    until(lambda: starts(tmp_path) == 2)
    up.send_signal(signal.SIGTERM)
    assert up.wait(PATIENCE_SECONDS) == 0
    assert gone(first)
    assert gone(second)
    assert not pid_file.exists()


def test_interrupt_ends_quietly_and_without_a_worker_none_is_started(tmp_path: Path, process: list) -> None:
    port = free_port()
    process.append(up := start(tmp_path, port, "--no-worker"))
    until(lambda: ready(tmp_path, port))
    assert not (tmp_path / "logs").exists()
    up.send_signal(signal.SIGINT)
    assert up.wait(PATIENCE_SECONDS) == 0
    log = (tmp_path / "up.log").read_text()
    assert f"http://127.0.0.1:{port}" in log
    assert "Traceback" not in log


def test_wrong_setting_is_one_line_that_names_it(tmp_path: Path, process: list) -> None:
    process.append(up := start(tmp_path, free_port(), "--no-worker", RATCHET_SUCCESS_THRESHOLD="2"))
    assert up.wait(PATIENCE_SECONDS) == 1
    lines = (tmp_path / "up.log").read_text().splitlines()
    assert [line for line in lines if "RATCHET_SUCCESS_THRESHOLD" in line]
    assert "Traceback" not in "\n".join(lines)


def test_port_that_is_taken_ends_the_start_with_an_error(tmp_path: Path, process: list) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        process.append(up := start(tmp_path, taken.getsockname()[1], "--no-worker"))
        assert up.wait(PATIENCE_SECONDS) != 0
    assert "address already in use" in (tmp_path / "up.log").read_text()


def test_start_that_fails_ends_with_an_error(tmp_path: Path, process: list) -> None:
    process.append(up := start(tmp_path, free_port(), "--no-worker", "--suite", "no_such_suite"))
    assert up.wait(PATIENCE_SECONDS) == 1
    assert "no_such_suite" in (tmp_path / "up.log").read_text()
