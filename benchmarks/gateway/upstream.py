"""`python -m benchmarks.gateway.upstream PORT MILLISECONDS`: vLLM's OpenAI server without a model, as plain ASGI.

Every reply is the same sixty tokens, with ids and log-probabilities as vLLM sends them, after a fixed wait.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from typing import Any

import orjson
import uvicorn
from starlette.types import Receive, Scope, Send
from tokenizers import Tokenizer

from agents.model_folder import model_folder

MODEL = "tiny"
CONTEXT = 4096
TOKENS = 60
WORDS = "your order 17 is cancelled and the money is on its way back to you " * TOKENS


@dataclass(frozen=True, slots=True)
class Reply:
    """What is always answered."""

    ids: list[int]
    logprobs: list[float]
    text: str


class Upstream:
    """The ASGI application."""

    def __init__(self, reply: Reply, seconds: float) -> None:
        self._reply = reply
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] == "lifespan":
            await _live(receive, send)
        elif scope["method"] == "GET":
            await _answer(send, _models() if scope["path"] == "/v1/models" else {})
        else:
            asked = orjson.loads(await _body(receive))
            await asyncio.sleep(self._seconds)
            chat = scope["path"] == "/v1/chat/completions"
            await _answer(send, self._chat(asked) if chat else self._completion(asked))

    def _completion(self, asked: dict[str, Any]) -> dict[str, Any]:
        choice = {
            "index": 0,
            "text": self._reply.text,
            "token_ids": self._reply.ids,
            "prompt_token_ids": asked["prompt"],
            "logprobs": {"token_logprobs": self._reply.logprobs, "tokens": [], "top_logprobs": [], "text_offset": []},
            "finish_reason": "stop",
            "stop_reason": None,
            "prompt_logprobs": None,
        }
        return {**_head("text_completion", asked["model"]), "choices": [choice]}

    def _chat(self, asked: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "assistant", "content": self._reply.text, "tool_calls": []}
        choice = {"index": 0, "message": message, "finish_reason": "stop", "logprobs": None}
        return {**_head("chat.completion", asked["model"]), "choices": [choice]}


def read_reply() -> Reply:
    """The sixty tokens, of the shipped model's vocabulary."""
    tokenizer = Tokenizer.from_file(str(model_folder(MODEL) / "tokenizer.json"))
    ids = tokenizer.encode(WORDS, add_special_tokens=False).ids[:TOKENS]
    return Reply(ids, [-0.1] * len(ids), tokenizer.decode(ids))


def _head(kind: str, model: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 0, "completion_tokens": TOKENS, "total_tokens": TOKENS}
    return {"id": "cmpl-1", "object": kind, "created": 1, "model": model, "usage": usage}


def _models() -> dict[str, Any]:
    card = {"id": MODEL, "object": "model", "root": MODEL, "parent": None, "max_model_len": CONTEXT}
    return {"object": "list", "data": [card]}


async def _body(receive: Receive) -> bytes:
    chunks, more = list[bytes](), True
    while more:
        message = await receive()
        chunks.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(chunks)


async def _answer(send: Send, body: dict[str, Any]) -> None:
    content = orjson.dumps(body)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(content)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": content})


async def _live(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return


if __name__ == "__main__":
    app = Upstream(read_reply(), float(sys.argv[2]) / 1000)
    uvicorn.run(app, port=int(sys.argv[1]), access_log=False, log_level="warning")
