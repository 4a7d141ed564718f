"""Supervisor: keeps child processes running, restarts what dies, and leaves none behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import structlog

log = structlog.get_logger(__name__)

POLL_SECONDS = 0.1
ROTATE_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Child:
    """One process to keep alive."""

    name: str
    """Also the name of its log and pid files."""
    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Patience:
    """How restarts are spaced and how long a stop may take; seconds."""

    first: float = 0.5
    """Wait before the first restart; doubles with each death that follows soon."""
    longest: float = 30.0
    healthy_after: float = 30.0
    """A child that lived this long starts again with the first wait."""
    stop: float = 5.0
    """Between SIGTERM and SIGKILL. Short on purpose: a round resumes from its last step."""


class Supervisor:
    """Runs children in their own process groups, restarting each with growing pauses until `stop`."""

    def __init__(
        self, children: Sequence[Child], environment: Mapping[str, str], logs: Path, patience: Patience | None = None
    ) -> None:
        self._patience = patience or Patience()
        self._keepers = [_Keeper(child, environment, logs, self._patience) for child in children]
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="supervisor", daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start every child and watch them from a thread."""
        self._thread.start()

    def stop(self) -> None:
        """End every child with its descendants and wait until all are gone; safe to call twice."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def pids(self) -> dict[str, int | None]:
        """Process id of each child; None between death and restart."""
        return {keeper.name: keeper.pid for keeper in self._keepers}

    def _watch(self) -> None:
        # The death signal of PR_SET_PDEATHSIG is tied to the thread that forked, so this thread starts them all.
        while not self._stopping.wait(POLL_SECONDS):
            for keeper in self._keepers:
                keeper.tend()
        for keeper in self._keepers:
            keeper.ask_to_end()
        deadline = time.monotonic() + self._patience.stop
        for keeper in self._keepers:
            keeper.end(deadline)


class _Keeper:
    """One child over its restarts."""

    def __init__(self, child: Child, environment: Mapping[str, str], logs: Path, patience: Patience) -> None:
        self.name = child.name
        self._command = [sys.executable, "-m", "service.leash", str(os.getpid()), *child.command]
        self._environment = dict(environment)
        self._log_path, self._pid_path = logs / f"{child.name}.log", logs / f"{child.name}.pid"
        self._patience = patience
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths = 0
        self._started_at = 0.0
        self._start_at = 0.0

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def tend(self) -> None:
        """Notice a death, start when it is time."""
        if self._process is not None and self._process.poll() is not None:
            self._bury(self._process)
        if self._process is None and time.monotonic() >= self._start_at:
            self._start()

    def ask_to_end(self) -> None:
        if self._process is not None:
            _signal_group(self._process, signal.SIGTERM)

    def end(self, deadline: float) -> None:
        """Wait until the deadline, then kill the whole group."""
        if self._process is None:
            return
        try:
            self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            log.info("child_killed", child=self.name)
        _signal_group(self._process, signal.SIGKILL)
        self._process.wait()
        self._forget()

    def _start(self) -> None:
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        _rotate(self._log_path)
        with self._log_path.open("ab") as out:
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        self._started_at = time.monotonic()
        self._pid_path.write_text(str(self._process.pid), encoding="ascii")

    def _bury(self, process: subprocess.Popen[bytes]) -> None:
        lived = time.monotonic() - self._started_at
        self._deaths = 0 if lived > self._patience.healthy_after else self._deaths + 1
        wait = min(self._patience.longest, self._patience.first * 2 ** max(0, self._deaths - 1))
        log.warning("child_died", child=self.name, status=process.returncode, restart_in=wait, log=str(self._log_path))
        _signal_group(process, signal.SIGKILL)
        self._start_at = time.monotonic() + wait
        self._forget()

    def _forget(self) -> None:
        self._process = None
        self._pid_path.unlink(missing_ok=True)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a child and its descendants; they are gone already when the group is."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return


def _rotate(path: Path) -> None:
    if path.is_file() and path.stat().st_size > ROTATE_BYTES:
        path.replace(path.with_suffix(".log.1"))
