"""ToolWorkers: processes for blocking tools. The event loop stays free, and what hangs is killed, not abandoned."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from agents.tools.check import ToolError
from agents.tools.worker import ERROR, TEXT

LIMIT = 16
LINE_BYTES = 16 * 2**20
"""Longest answer of a worker on its pipe; the worker caps text far below."""
PRIVATE = "RATCHET_"
"""Settings of the service (its database, its keys) are not for tools."""


class NoWorkerFree(ToolError):
    """Every process is taken, and none may be added."""


class ToolWorkers:
    """Runs importable functions, at most `limit` at a time. Processes are kept and used again."""

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._idle: list[asyncio.subprocess.Process] = []
        self._busy = 0

    async def run(self, function: str, arguments: Mapping[str, Any]) -> str:
        """The result of "module:name" as text. Raises `ToolError`; cancelling kills the process."""
        if self._busy >= self._limit:
            raise NoWorkerFree("too many tools are still running")
        self._busy += 1
        try:
            worker = self._idle.pop() if self._idle else await _start()
            answer = await _ask(worker, {"function": function, "arguments": dict(arguments)})
        finally:
            self._busy -= 1
        self._idle.append(worker)
        if ERROR in answer:
            raise ToolError(answer[ERROR])
        return answer[TEXT]

    async def close(self) -> None:
        """End the idle processes."""
        while self._idle:
            await _kill(self._idle.pop())


async def _start() -> asyncio.subprocess.Process:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PRIVATE)}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "agents.tools.worker"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        limit=LINE_BYTES,
        env={**kept, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )


async def _ask(worker: asyncio.subprocess.Process, call: Mapping[str, Any]) -> dict[str, str]:
    assert worker.stdin is not None  # noqa: S101 - both are pipes, see `_start`
    assert worker.stdout is not None  # noqa: S101
    try:
        worker.stdin.write(json.dumps(call).encode() + b"\n")
        await worker.stdin.drain()
        answer: dict[str, str] = json.loads(await worker.stdout.readline())
    except (OSError, ValueError) as error:
        await _kill(worker)
        raise ToolError("the tool's process ended without an answer") from error
    except BaseException:
        await _kill(worker)
        raise
    return answer


async def _kill(worker: asyncio.subprocess.Process) -> None:
    if worker.returncode is None:
        worker.kill()
    await worker.wait()
    # the loop closes the pipes of a process that ended in its next turns; a loop that ends first would complain
    transport = getattr(worker, "_transport", None)
    if transport is not None:
        transport.close()
