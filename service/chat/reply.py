"""An answer in OpenAI's words: whole, or as chunks that join to exactly the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

from bank.message import Message
from service.chat.schemas import ChatReply, Choice, Usage
from service.chat.turn import Answer, ChatTurn

PIECE = 64
"""Characters of text or arguments in one chunk."""


def whole(turn: ChatTurn, answer: Answer) -> ChatReply:
    """The body of an answer that is not streamed."""
    head = header(turn)
    choice = Choice(message=_message(answer.shown), finish_reason=finish_reason(answer))
    return ChatReply(**head, choices=[choice], usage=usage(answer))


def header(turn: ChatTurn) -> dict[str, Any]:
    """What every chunk and the whole reply begin with."""
    question = turn.question
    known = 0 if question.thread.episode is None else len(question.thread.episode.turns)
    return {
        "id": f"chatcmpl-{question.id.removeprefix('ep_')}-{known}",
        "created": int(question.created_at.timestamp()),
        "model": turn.lease.version,
        "system_fingerprint": turn.lease.digest,
        "episode_id": question.id if question.stored else None,
    }


def finish_reason(answer: Answer) -> Literal["stop", "length", "tool_calls"]:
    """Always what the body says: calls (also for a named choice), a cut, or an end."""
    return "tool_calls" if answer.shown.tool_calls else "length" if answer.cut else "stop"


def usage(answer: Answer) -> Usage:
    """All model calls of the request."""
    read = sum(len(turn.prompt_ids) for turn in answer.turns)
    written = sum(len(turn.sampled_ids) for turn in answer.turns)
    return Usage(prompt_tokens=read, completion_tokens=written, total_tokens=read + written)


def first_chunk(turn: ChatTurn, *, with_usage: bool) -> bytes:
    """Who speaks."""
    return _chunk(turn, {"role": "assistant", "content": ""}, None, with_usage=with_usage)


def chunks(turn: ChatTurn, answer: Answer, *, with_usage: bool) -> Iterator[bytes]:
    """The rest, its end included; usage last and only when asked for."""
    for delta in _deltas(answer.shown):
        yield _chunk(turn, delta, None, with_usage=with_usage)
    yield _chunk(turn, {}, finish_reason(answer), with_usage=with_usage)
    if with_usage:
        yield event({**_head(turn), "choices": [], "usage": usage(answer).model_dump()})
    yield b"data: [DONE]\n\n"


def event(body: dict[str, Any]) -> bytes:
    """One server-sent event. Not escaped to ASCII: a stream is UTF-8."""
    return f"data: {json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(',', ':'))}\n\n".encode()


def _deltas(message: Message) -> Iterator[dict[str, Any]]:
    for piece in _pieces(message.content):
        yield {"content": piece}
    for index, call in enumerate(message.tool_calls):
        function = {"name": call.name, "arguments": ""}
        yield {"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": function}]}
        for piece in _pieces(call.arguments):
            yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _pieces(text: str) -> Iterator[str]:
    return (text[at : at + PIECE] for at in range(0, len(text), PIECE))


def _chunk(turn: ChatTurn, delta: dict[str, Any], reason: str | None, *, with_usage: bool) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
    return event({**_head(turn), "choices": [choice], **({"usage": None} if with_usage else {})})


def _head(turn: ChatTurn) -> dict[str, Any]:
    return {**header(turn), "object": "chat.completion.chunk"}


def _message(message: Message) -> dict[str, Any]:
    wire = message.to_wire()
    if message.tool_calls and not message.content:
        wire["content"] = None
    return {**wire, "refusal": None}
