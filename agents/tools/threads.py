"""Threads for blocking tools: the event loop stays free, a stuck tool costs one bounded, abandoned thread.

A thread can't be killed. So threads are daemons, which never hold up the end of the process (a pool would
join them), and their number is bounded, so that stuck tools can't pile up; code that may hang for good
belongs into a worker process.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


class NoThreadFree(Exception):
    """Every thread is taken, by running or by stuck work."""


class ToolThreads:
    """Runs blocking work, at most `limit` at a time."""

    def __init__(self, limit: int) -> None:
        self._free = threading.BoundedSemaphore(limit)

    async def run(self, work: Callable[[], Result]) -> Result:
        """Result of `work`, run in a thread with this task's context. Cancelling abandons the thread.

        Raises `NoThreadFree` at once instead of queueing behind work that may never end.
        """
        if not self._free.acquire(blocking=False):
            raise NoThreadFree("too many tools are still running")
        future: Future[Result] = Future()
        future.set_running_or_notify_cancel()
        target = contextvars.copy_context().run
        threading.Thread(target=target, args=(self._work, work, future), name="tool", daemon=True).start()
        return await asyncio.wrap_future(future)

    def _work(self, work: Callable[[], Result], future: Future[Result]) -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - the end of a thread: everything goes to who awaits it
            self._free.release()
            future.set_exception(error)
        else:
            self._free.release()
            future.set_result(result)
