"""Checks a tool call before it is dispatched; what is wrong is said to the model in one short line."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from referencing import Registry

from agents.tools.spec import ToolSpec
from bank.message import ToolCall

ECHO = 60
"""Longest piece of the model's own text that an error repeats."""
PROBLEMS = 3
"""Most schema problems that one error names."""
NAMES = 600
"""Longest list of valid names in an error, in characters."""


class ToolError(Exception):
    """A call that can't be answered; the text goes back to the model."""


class CallCheck:
    """The declared tools of one session. Names match exactly: no case folding, no prefixes."""

    def __init__(self, tools: Sequence[ToolSpec]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        if len(self._tools) != len(tools):
            raise ValueError(f"tool names repeat: {sorted(tool.name for tool in tools)}")

    def arguments(self, call: ToolCall) -> dict[str, Any]:
        """The arguments object of a call that may be dispatched. Raises `ToolError`."""
        tool = self._tools.get(call.name)
        if tool is None:
            raise ToolError(self._unknown(call.name))
        arguments = _object(call.arguments)
        # An empty registry: a schema's "$ref" must never make this process fetch a URL.
        validator = Draft202012Validator(dict(tool.parameters), registry=Registry())
        problems = sorted(validator.iter_errors(arguments), key=lambda error: list(map(str, error.absolute_path)))
        if problems:
            raise ToolError(f"{call.name}: {_explain(problems, tool.parameters)}")
        return arguments

    def _unknown(self, name: str) -> str:
        names = _shorten(", ".join(self._tools), NAMES) or "none"
        if not name:
            return f'broken tool call, write {{"name": ..., "arguments": {{...}}}}; tools: {names}'
        return f"unknown tool {_shorten(name, ECHO)}; tools: {names}"


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"arguments are broken JSON: {_shorten(str(error), ECHO)}") from error
    if not isinstance(value, dict):
        raise ToolError("arguments must be a JSON object")
    return value


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("number out of range")
    return value


def _explain(problems: Sequence[ValidationError], schema: Mapping[str, Any]) -> str:
    missing = [key for problem in problems if problem.validator == "required" for key in _missing(problem)]
    lines = [f"missing {', '.join(dict.fromkeys(missing))}"] if missing else []
    lines += [_line(problem) for problem in problems if problem.validator != "required"]
    lines = lines[:PROBLEMS]
    if any(problem.validator == "additionalProperties" for problem in problems):
        lines.append(f"arguments: {_shorten(', '.join(schema.get('properties', {})), NAMES) or 'none'}")
    return "; ".join(lines)


def _missing(problem: ValidationError) -> list[str]:
    required: Any = problem.validator_value
    return [key for key in required if key not in _instance(problem)]


def _line(problem: ValidationError) -> str:
    where = ".".join(map(str, problem.absolute_path)) or "arguments"
    wanted: Any = problem.validator_value
    if problem.validator == "additionalProperties":
        return f"unknown {_shorten(', '.join(_unknown(problem)), ECHO)}"
    if problem.validator == "type":
        return f"{where} must be {wanted if isinstance(wanted, str) else ' or '.join(wanted)}"
    if problem.validator == "enum":
        return f"{where} must be one of {_shorten(', '.join(map(str, wanted)), NAMES)}"
    return f"{where}: {_shorten(problem.message, 2 * ECHO)}"


def _unknown(problem: ValidationError) -> list[str]:
    schema: Any = problem.schema
    return [key for key in _instance(problem) if key not in schema.get("properties", {})]


def _instance(problem: ValidationError) -> Any:
    """What was judged; the library types it as possibly unset, which it never is in a found problem."""
    return problem.instance


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3] + "..."
