"""RoundWatch: runs a claimed round in a fresh process, and settles what is left when that process dies.

A fresh process, never a fork: torch and CUDA do not survive one, and whatever the round took (memory of an
accelerator above all) the system has back when it ends. This side imports no torch.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

import structlog

from bank.ledger.errors import StaleFence
from bank.ledger.ledger import Ledger
from bank.round import Round
from trainer.lease import utc_now
from trainer.settings import Settings

COMMAND = (sys.executable, "-m", "trainer.round_process")
LOOK_SECONDS = 0.1

log = structlog.get_logger(__name__)


class RoundWatch:
    """One round at a time."""

    def __init__(
        self,
        settings: Settings,
        ledger: Ledger,
        stopping: Callable[[], bool],
        beat: Callable[[], None],
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._command = command
        self._settings = settings
        self._ledger = ledger
        self._stopping = stopping
        self._beat = beat

    def run(self, claimed: Round) -> None:
        """Start the round's process and return when it is gone and its lease is settled."""
        # Its end of the pipe closes with this process, however that ends: the round's process then ends itself.
        process = subprocess.Popen([*self._command, claimed.id, str(claimed.fence)], stdin=subprocess.PIPE)  # noqa: S603 - ours
        try:
            asked, why = self._wait(process)
        finally:
            process.kill()
            process.communicate()
        if process.returncode != 0:
            self._settle(claimed, why or _describe(process.returncode), counted=not asked)

    def _wait(self, process: subprocess.Popen[bytes]) -> tuple[bool, str]:
        """Whether the process was asked to end, and why it was not let live, if it was not."""
        began = heard = time.monotonic()
        while process.poll() is None:
            if self._stopping():
                _ask_to_end(process, self._settings.stop_seconds)
                return True, "the worker was stopped"
            if time.monotonic() - began > self._settings.round_seconds:
                return False, f"took longer than {self._settings.round_seconds:.0f} s (RATCHET_ROUND_SECONDS)"
            if time.monotonic() - heard > self._settings.poll_seconds:
                heard = time.monotonic()
                self._beat()
            time.sleep(LOOK_SECONDS)
        return False, ""

    def _settle(self, claimed: Round, error: str, *, counted: bool) -> None:
        """Give the round back, unless its process has ended it, or another worker has it."""
        pause = self._settings.retry_seconds * 2 ** (claimed.attempts - 1) if counted else 0.0
        log.warning("round's process is gone", round=claimed.id, attempt=claimed.attempts, error=error)
        try:
            with self._ledger.write() as books:
                again = utc_now() + timedelta(seconds=pause)
                books.rounds.give_back(claimed.id, claimed.fence, again, error=error, counted=counted)
        except StaleFence:
            return


def _ask_to_end(process: subprocess.Popen[bytes], seconds: float) -> None:
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _describe(status: int) -> str:
    if status < 0:
        return f"its process was killed by {signal.Signals(-status).name}"
    return f"its process ended with status {status}, see the worker's log"
