"""Tool calls in the Hermes/Qwen3 format: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

Rules, the same for one-shot and streaming reading, whatever the chunks:
- `</tool_call>` inside a JSON string is text of that string.
- A call that can't be read stays a call, with its raw text as arguments, so that the loop tells the model.
- A call may lack its closing tag; text after a call is content.
- `<think>` text is reasoning, never content. A well-formed call inside it counts; anything else there is reasoning.
- NUL, which a byte-level vocabulary can sample and no ledger can store, becomes U+FFFD.
- Content has no white space at its ends; stray closing tags are dropped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from agents.parsing.calls import REPLACEMENT, WrittenCall, broken_call, read_calls
from bank.message import ToolCall

OPEN, CLOSE = "<tool_call>", "</tool_call>"
THINK, END_THINK = "<think>", "</think>"
_TAGS = (OPEN, CLOSE, THINK, END_THINK)
_TAG = re.compile("|".join(map(re.escape, _TAGS)))
_CALL_TAG = re.compile("</?tool_call>")
_IN_CALL = re.compile(r'\\.|"|</?tool_call>', re.DOTALL)


@dataclass(frozen=True, slots=True)
class Parsed:
    """One reply, taken apart."""

    content: str
    tool_calls: tuple[ToolCall, ...]
    """Ids are unique within the reply: "call_0", "call_1", ..."""
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a reply; exactly one field is set. Calls come whole, when they are complete."""

    content: str = ""
    reasoning: str = ""
    call: ToolCall | None = None


def parse(text: str, *, thinking: bool = False) -> Parsed:
    """Take a complete reply apart. `thinking`: the prompt already opened `<think>`."""
    stream = HermesStream(thinking=thinking)
    return collect([*stream.feed(text), *stream.finish()])


def collect(deltas: Iterable[Delta]) -> Parsed:
    """Join the deltas of one reply."""
    pieces = list(deltas)
    content = "".join(piece.content for piece in pieces)
    calls = tuple(piece.call for piece in pieces if piece.call is not None)
    return Parsed(content, calls, "".join(piece.reasoning for piece in pieces).strip())


class HermesStream:
    """Reads one reply chunk by chunk; text is handed on as soon as it can't become part of a tag."""

    def __init__(self, *, thinking: bool = False) -> None:
        self._thinking = thinking
        self._buffer = ""
        self._in_call = False
        self._scanned = 0
        self._in_string = False
        self._calls = 0
        self._spoken = False
        self._gap = ""

    def feed(self, chunk: str) -> list[Delta]:
        """Add text; returns what is now certain."""
        self._buffer += chunk.replace("\0", REPLACEMENT)
        return self._drain(final=False)

    def finish(self) -> list[Delta]:
        """End of the reply; returns the rest."""
        return self._drain(final=True)

    def _drain(self, *, final: bool) -> list[Delta]:
        deltas: list[Delta] = []
        while self._read_call(deltas, final=final) if self._in_call else self._read_text(deltas, final=final):
            pass
        return deltas

    def _read_text(self, deltas: list[Delta], *, final: bool) -> bool:
        match = _TAG.search(self._buffer)
        if match is None:
            certain = len(self._buffer) - (0 if final else _held_back(self._buffer))
            self._say(deltas, self._buffer[:certain])
            self._buffer = self._buffer[certain:]
            return False
        self._say(deltas, self._buffer[: match.start()])
        self._buffer = self._buffer[match.end() :]
        self._enter(match.group())
        return True

    def _enter(self, tag: str) -> None:
        if tag == OPEN:
            self._in_call, self._scanned, self._in_string = True, 0, False
        elif tag != CLOSE:
            self._thinking = tag == THINK

    def _read_call(self, deltas: list[Delta], *, final: bool) -> bool:
        end = self._call_end()
        if end is None and not final:
            return False
        body = self._buffer[:end]
        calls, rest = read_calls(body)
        self._in_call = False
        self._emit(deltas, calls)
        if calls and not rest.startswith("{"):
            self._buffer = rest + self._buffer[len(body) :].removeprefix(CLOSE)
        elif calls or not self._thinking:
            self._take_broken(deltas, len(body) - len(rest) if calls else 0)
        else:
            self._say(deltas, OPEN)
        return True

    def _call_end(self) -> int | None:
        """Where the call's text ends: the first tag outside a JSON string."""
        at = self._scanned
        for match in _IN_CALL.finditer(self._buffer, self._scanned):
            at = match.end()
            if match.group() == '"':
                self._in_string = not self._in_string
            elif match.group()[0] == "<" and not self._in_string:
                return match.start()
        self._scanned = max(at, len(self._buffer) - len(CLOSE) + 1)
        return None

    def _take_broken(self, deltas: list[Delta], start: int) -> None:
        """A broken call ends at the first tag of all: its quotes can't be trusted."""
        match = _CALL_TAG.search(self._buffer, start)
        end = match.start() if match else len(self._buffer)
        self._emit(deltas, [broken_call(self._buffer[start:end])])
        self._buffer = self._buffer[end:].removeprefix(CLOSE)

    def _emit(self, deltas: list[Delta], calls: Iterable[WrittenCall]) -> None:
        for call in calls:
            deltas.append(Delta(call=ToolCall(f"call_{self._calls}", call.name, call.arguments)))
            self._calls += 1

    def _say(self, deltas: list[Delta], text: str) -> None:
        if self._thinking:
            deltas.extend([Delta(reasoning=text)] if text else [])
            return
        text = self._gap + text
        text = text if self._spoken else text.lstrip()
        words = text.rstrip()
        self._gap = text[len(words) :]
        if words:
            self._spoken = True
            deltas.append(Delta(content=words))


def _held_back(text: str) -> int:
    """Length of the longest end of `text` that could be the beginning of a tag."""
    longest = min(len(text), max(map(len, _TAGS)) - 1)
    return next((size for size in range(longest, 0, -1) if any(tag.startswith(text[-size:]) for tag in _TAGS)), 0)
