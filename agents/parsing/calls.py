"""Reads the JSON between two tool-call tags, keeping each call's arguments exactly as they were written."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

REPLACEMENT = "\ufffd"
"""Stands for what no ledger can store."""
_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\n\r]*")
_SEPARATOR = re.compile(r"[\s;,\[\]]*")
_NAME = re.compile(r'"name"\s*:\s*"([^"\\]*)"')


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """One call as the model wrote it."""

    name: str
    """Empty when no name could be read."""
    arguments: str
    """JSON text of the arguments, or the whole raw text when the call could not be read."""


def read_calls(body: str) -> tuple[tuple[WrittenCall, ...], str]:
    """The well-formed calls that `body` starts with, and what follows them.

    One object is the rule of the format; lists and sequences of objects are accepted too, because models
    write them and dropping the second call silently would be worse.
    """
    calls: list[WrittenCall] = []
    at = _skip(_SEPARATOR, body, 0)
    while body.startswith("{", at):
        try:
            value, end = _DECODER.raw_decode(body, at)
        except (ValueError, RecursionError):
            break
        calls.append(_written(value, body[at:end]))
        at = _skip(_SEPARATOR, body, end)
    return tuple(calls), body[at:]


def broken_call(body: str) -> WrittenCall:
    """What to keep of text that is no call: its name where one can be guessed, and all of its text."""
    name = _NAME.search(body)
    return WrittenCall(name.group(1) if name else "", body.strip())


def _written(value: dict[str, Any], source: str) -> WrittenCall:
    name = value.get("name")
    if not isinstance(name, str) or not name:
        return WrittenCall("", source)
    arguments = value.get("arguments")
    if arguments is None or arguments == "":
        return WrittenCall(_whole(name), "{}")
    if isinstance(arguments, str):
        return WrittenCall(_whole(name), _whole(arguments))
    return WrittenCall(_whole(name), _member(source, "arguments"))


def _member(source: str, key: str) -> str:
    """Source text of one member of a well-formed object; the last one wins, as in `json.loads`."""
    found = ""
    at = _skip(_SPACE, source, 1)
    while source[at] != "}":
        name, at = _DECODER.raw_decode(source, at)
        start = _skip(_SPACE, source, _skip(_SPACE, source, at) + 1)
        _, end = _DECODER.raw_decode(source, start)
        if name == key:
            found = source[start:end]
        at = _skip(_SPACE, source, end)
        at = _skip(_SPACE, source, at + 1) if source[at] == "," else at
    return found


def _skip(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _whole(text: str) -> str:
    """Without halves of surrogate pairs and NUL: JSON can escape them, but UTF-8 or the ledger can't carry them."""
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", REPLACEMENT)
