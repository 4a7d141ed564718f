"""The one thread that touches the model: forwards, loads and unloads in turn."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from agents.engine import EngineFault
from agents.transformers_engine.decode import Decoder
from agents.transformers_engine.residents import Residents
from agents.transformers_engine.rows import Row

Result = TypeVar("Result")

QUIET = 0.003
"""Seconds without a new request that end the gathering of a first batch."""
GATHER = 0.05
"""Longest gathering, seconds."""
STALE = 0.1
"""Seconds after which a waiting request joins the running rows although few wait with it."""


class Worker:
    """Runs requests of one decoder. A request that joins costs a copy of the running cache, so they join in groups."""

    def __init__(self, decoder: Decoder, residents: Residents, max_batch: int) -> None:
        self._decoder = decoder
        self._residents = residents
        self._max_batch = max_batch
        self._waiting: deque[Row] = deque()
        self._commands: deque[Callable[[], None]] = deque()
        self._changed = threading.Condition()
        self._waits_since = 0.0
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="ratchet-engine", daemon=True)
        self._thread.start()

    def submit(self, row: Row) -> None:
        """Queue one request. Raises `EngineFault` after closing."""
        with self._changed:
            self._refuse_when_closed()
            if not self._waiting:
                self._waits_since = time.monotonic()
            self._waiting.append(row)
            self._changed.notify()

    def call(self, action: Callable[[], Result]) -> Future[Result]:
        """Run `action` on the worker's thread between two bursts of decoding."""
        future: Future[Result] = Future()
        with self._changed:
            self._refuse_when_closed()
            self._commands.append(lambda: _settle(future, action))
            self._changed.notify()
        return future

    def close(self) -> None:
        """Stop after the current burst; requests in flight fail with `EngineFault`."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()

    def _refuse_when_closed(self) -> None:
        if self._closing or not self._thread.is_alive():
            raise EngineFault("the engine is closed")

    def _run(self) -> None:
        try:
            while self._wait():
                self._turn()
        finally:
            self._closing = True
            self._fail([*self._decoder.drop_all(), *self._waiting], "the engine stopped")
            for command in self._commands:
                command()

    def _wait(self) -> bool:
        """Block while there is nothing to do; False when closing."""
        with self._changed:
            idle = not self._decoder.live
            while idle and not (self._closing or self._waiting or self._commands):
                self._changed.wait()
            if idle and self._waiting:
                self._gather()
            return not self._closing

    def _gather(self) -> None:
        until = time.monotonic() + GATHER
        while len(self._waiting) < self._max_batch and time.monotonic() < until:
            if not self._changed.wait(QUIET):
                return

    def _turn(self) -> None:
        while self._commands:
            self._commands.popleft()()
        rows = self._joining()
        finished, error = _attempt(lambda: self._decode(rows))
        if error is not None:
            self._fail([*rows, *self._decoder.drop_all()], "the forward pass failed", error)
        for row in finished or ():
            if row.future.set_running_or_notify_cancel():
                row.future.set_result(row)
        self._residents.sweep()

    def _decode(self, rows: list[Row]) -> list[Row]:
        finished = self._decoder.admit(rows) if rows else []
        return finished + self._decoder.advance()

    def _joining(self) -> list[Row]:
        """Waiting rows whose turn it is; cancelled ones vanish here."""
        running = len(self._decoder.live)
        with self._changed:
            self._waiting = deque(row for row in self._waiting if row.live)
            late = time.monotonic() - self._waits_since > STALE
            if running and 4 * len(self._waiting) < running and not late:
                return []
            count = min(len(self._waiting), self._max_batch - running)
            rows = [self._waiting.popleft() for _ in range(count)]
            if rows:
                self._waits_since = time.monotonic()
        return rows

    def _fail(self, rows: list[Row], reason: str, cause: Exception | None = None) -> None:
        for row in dict.fromkeys(rows):
            if row.future.set_running_or_notify_cancel():
                fault = EngineFault(reason if cause is None else f"{reason}: {cause}")
                fault.__cause__ = cause
                row.future.set_exception(fault)


def _settle(future: Future[Result], action: Callable[[], Result]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    result, error = _attempt(action)
    if error is None:
        future.set_result(result)  # type: ignore[arg-type]
    else:
        future.set_exception(error)


def _attempt(action: Callable[[], Result]) -> tuple[Result | None, Exception | None]:
    try:
        return action(), None
    except Exception as error:  # noqa: BLE001 - the thread's one boundary: whoever waits for the result gets the error
        return None, error
