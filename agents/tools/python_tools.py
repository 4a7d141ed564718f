"""PythonTools: functions with type hints as a toolset. Async ones are awaited here, blocking ones run in worker processes."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from agents.tools.check import ToolError
from agents.tools.functions import Function, address, apply, as_text, tool_spec
from agents.tools.spec import ToolSpec
from agents.tools.workers import LIMIT, ToolWorkers

SECONDS = 30.0


class PythonTools:
    """A fixed set of functions (`agents.tools.toolset.Toolset`), each call under a deadline."""

    def __init__(self, functions: Sequence[Function], seconds: float = SECONDS, workers: int = LIMIT) -> None:
        """Raises TypeError for a function that can't be a tool."""
        self._specs = tuple(map(tool_spec, functions))
        self._seconds = seconds
        self._workers = ToolWorkers(workers)
        self._calls = {function.__name__: self._caller(function) for function in functions}

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """What the model is told."""
        return self._specs

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Result of one call: text as it is, anything else as JSON. Raises `ToolError`, or what an async tool raises."""
        try:
            async with asyncio.timeout(self._seconds) as clock:
                return await self._calls[name](arguments)
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise ToolError(f"{name} gave no answer within {self._seconds:g} s") from error

    async def close(self) -> None:
        """End the worker processes."""
        await self._workers.close()

    def _caller(self, function: Function) -> Callable[[Mapping[str, Any]], Coroutine[Any, Any, str]]:
        if inspect.iscoroutinefunction(function):
            return functools.partial(_awaited, function)
        return functools.partial(self._workers.run, address(function))


async def _awaited(function: Function, arguments: Mapping[str, Any]) -> str:
    return as_text(await apply(function, arguments))
