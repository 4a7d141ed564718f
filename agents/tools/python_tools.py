"""Python functions as tools: the type hints are the schema, the docstring is the description."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs, to_json

from agents.tools.check import ToolError
from agents.tools.spec import ToolSpec
from agents.tools.threads import ToolThreads
from bank.message import Message, Role

SECONDS = 30.0
THREADS = 64

Function = Callable[..., Any]


def tool_spec(function: Function) -> ToolSpec:
    """What the model is told about a function. Raises TypeError when a parameter can't be a JSON argument."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.annotation is parameter.empty:
            raise TypeError(f"{function.__name__}: parameter {parameter.name} has no type hint")
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{function.__name__}: parameter {parameter.name} can't be given by name")
    schema = _adapter(function).json_schema()
    for described in schema.get("properties", {}).values():
        described.pop("title", None)
    return ToolSpec(function.__name__, inspect.getdoc(function) or "", schema)


def _adapter(function: Any) -> TypeAdapter[Any]:
    """Validates arguments and calls the function; pydantic types it for types only, though it takes callables."""
    return TypeAdapter(function)


class PythonTools:
    """A fixed set of functions. Sync ones run in threads, async ones are awaited, both under a deadline."""

    def __init__(self, functions: Sequence[Function], seconds: float = SECONDS, threads: int = THREADS) -> None:
        self.specs = tuple(map(tool_spec, functions))
        self._functions = {function.__name__: function for function in functions}
        self._adapters = {name: _adapter(function) for name, function in self._functions.items()}
        self._seconds = seconds
        self._threads = ToolThreads(threads)

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Result of one call: text as it is, anything else as JSON. Raises `ToolError` or what the function raises."""
        work = functools.partial(self._adapters[name].validate_python, ArgsKwargs((), dict(arguments)))
        try:
            async with asyncio.timeout(self._seconds) as clock:
                result = await self._run(name, work)
        except ValidationError as error:
            raise ToolError(f"{name}: {error.errors()[0]['msg']}") from error
        except TimeoutError as error:
            if not clock.expired():
                raise
            raise ToolError(f"{name} gave no answer within {self._seconds:g} s") from error
        return result if isinstance(result, str) else to_json(result).decode()

    def session(self, text: str, system: str = "") -> PythonSession:
        """A session for a user's own words with these tools."""
        return PythonSession(self, text, system)

    async def _run(self, name: str, work: Callable[[], Any]) -> Any:
        if not inspect.iscoroutinefunction(self._functions[name]):
            return await self._threads.run(work)
        answer: Awaitable[Any] = work()
        return await answer


class PythonSession:
    """A conversation over Python tools (`agents.environment.Session`); nothing verifies it."""

    def __init__(self, tools: PythonTools, text: str, system: str = "") -> None:
        introduction = (Message(Role.SYSTEM, system),) if system else ()
        self.opening: tuple[Message, ...] = (*introduction, Message(Role.USER, text))
        self.tools = tools.specs
        self._tools = tools

    def call(self, name: str, arguments: Mapping[str, Any]) -> Awaitable[str]:
        """Start one tool."""
        return self._tools.call(name, arguments)

    def verify(self) -> float | None:
        """None: only feedback can reward it."""
        return None
