"""Python functions as the model sees them, and how one is called: the same in the service and in a worker process."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ArgsKwargs, to_json

from agents.tools.cap import WHOLE_CHARACTERS, cap_result
from agents.tools.check import ToolError
from agents.tools.spec import ToolSpec

Function = Callable[..., Any]


def tool_spec(function: Function) -> ToolSpec:
    """What the model is told about a function. Raises TypeError when a parameter can't be a JSON argument."""
    for parameter in inspect.signature(function).parameters.values():
        if parameter.annotation is parameter.empty:
            raise TypeError(f"{function.__name__}: parameter {parameter.name} has no type hint")
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"{function.__name__}: parameter {parameter.name} can't be given by name")
    schema = adapter(function).json_schema()
    for described in schema.get("properties", {}).values():
        described.pop("title", None)
    return ToolSpec(function.__name__, inspect.getdoc(function) or "", schema)


def adapter(function: Any) -> TypeAdapter[Any]:
    """Validates arguments and calls the function; pydantic types it for types only, though it takes callables."""
    return TypeAdapter(function)


def address(function: Function) -> str:
    """Where another process finds it, "module:name". Raises TypeError when it can't."""
    found = f"{function.__module__}:{function.__qualname__}"
    if "<" in found or function.__module__ == "__main__" or find(found) is not function:
        raise TypeError(f"{found}: a blocking tool runs in a process of its own and must be importable")
    return found


def find(place: str) -> Function:
    """The function at "module:name"."""
    module, _, name = place.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    function: Function = found
    return function


def apply(function: Function, arguments: Mapping[str, Any]) -> Any:
    """What it returns for JSON arguments. Raises `ToolError` when they do not fit its hints, or what it raises."""
    try:
        return adapter(function).validate_python(ArgsKwargs((), dict(arguments)))
    except ValidationError as error:
        raise ToolError(f"{function.__name__}: {error.errors()[0]['msg']}") from error


def as_text(result: Any) -> str:
    """Text as it is, anything else as JSON; bounded."""
    return cap_result(result if isinstance(result, str) else to_json(result).decode(), WHOLE_CHARACTERS)
