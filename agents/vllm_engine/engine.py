"""VllmEngine: the `Engine` protocol over one vLLM server."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from agents.adapter import AdapterRef
from agents.engine import EngineFault, GenerateRequest, Generation, PromptTooLong, Sampling, UnknownVersion
from agents.parsing.reply import reply_of
from agents.vllm_engine.model import ServedModel
from agents.vllm_engine.schemas import Choice, Completion
from agents.vllm_engine.shelf import Shelf
from agents.vllm_engine.wire import Patience, Refused, Wire
from bank.message import Message

CONNECTIONS = 1024
"""Requests on their way to one server; more wait here."""
PATH = "/v1/completions"
PLAIN = {"n": 1, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
"""Said in every request, or the server's own defaults would change what is sampled."""


@dataclass(slots=True)
class Sampled:
    """Tokens of one reply."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    """Nats, at temperature 1, untruncated."""
    finish_reason: str = "length"

    def take(self, choice: Choice) -> None:
        """Append a piece. Raises `EngineFault` when tokens and log-probs do not belong together."""
        ids, logprobs = choice.token_ids or (), choice.logprobs.token_logprobs if choice.logprobs else ()
        if len(ids) != len(logprobs):
            raise EngineFault(f"the server sent {len(ids)} tokens with {len(logprobs)} log-probabilities")
        self.ids += ids
        self.logprobs += logprobs
        self.finish_reason = choice.finish_reason or self.finish_reason


class VllmEngine:
    """One server. Belongs to one event loop."""

    def __init__(
        self, url: str, model: ServedModel, patience: Patience | None = None, connections: int = CONNECTIONS
    ) -> None:
        """`url`: the server's direct address, without /v1; not that of a balancer before several servers."""
        self._model = model
        self._wire = Wire(url, patience or Patience(), connections)
        self._shelf = Shelf(self._wire, model)

    async def generate(self, request: GenerateRequest) -> Generation:
        """One reply. Raises `UnknownVersion`, `Unavailable`, `PromptTooLong` or another `EngineFault`."""
        prompt = self._model.template.render(request.messages, request.tools)
        sampled = await self.complete(request.version, prompt, request.sampling)
        return self._generation(request, prompt, sampled)

    async def complete(self, version: str, prompt_ids: Sequence[int], sampling: Sampling) -> Sampled:
        """Tokens in, tokens out. Raises as `generate`."""
        with self._shelf.asking(version):
            body = await self._body(version, prompt_ids, sampling)
            answer = await self._ask(body)
        return _sampled(answer, prompt_ids)

    async def stream(self, request: GenerateRequest) -> AsyncGenerator[str | Generation]:
        """Pieces of the reply's text as they are sampled, then the whole reply. Closing the iterator stops the server."""
        prompt = self._model.template.render(request.messages, request.tools)
        sampled = Sampled()
        with self._shelf.asking(request.version):
            body = {**await self._body(request.version, prompt, request.sampling), "stream": True}
            async with aclosing(self._pieces(body)) as pieces:
                async for choice in pieces:
                    sampled.take(choice)
                    if choice.text:
                        yield choice.text
        yield self._generation(request, prompt, sampled)

    async def score(self, version: str, prompt_ids: Sequence[int], sampled_ids: Sequence[int]) -> list[float]:
        """Log-probs in nats of `sampled_ids` after `prompt_ids` under a version, at temperature 1, untruncated."""
        if not sampled_ids:
            return []
        with self._shelf.asking(version):
            whole = [*prompt_ids, *sampled_ids]
            body = await self._body(version, whole[:-1], Sampling(temperature=0.0, max_tokens=1))
            answer = await self._ask({**body, "prompt": whole, "prompt_logprobs": 0})
        entries = (answer.choices[0].prompt_logprobs or ())[-len(sampled_ids) :]
        scores = [entry[token].logprob for entry, token in zip(entries, sampled_ids, strict=False) if entry]
        if len(scores) != len(sampled_ids):
            raise EngineFault(f"the server scored {len(scores)} of {len(sampled_ids)} tokens")
        return scores

    async def load(self, adapter: AdapterRef) -> None:
        """Verify the folder, then load it. 200 means usable, on this server only. Raises `LoadRefused` or `EngineFault`."""
        await self._shelf.load(adapter)

    async def unload(self, name: str) -> None:
        """No new requests for `name`; forgotten once this process's own have ended."""
        await self._shelf.unload(name)

    async def versions(self) -> Mapping[str, str]:
        """Resident versions with digests; `base` among them. Raises `EngineFault`."""
        return await self._shelf.versions()

    async def close(self) -> None:
        """Close the connections. The server and its versions stay."""
        await self._wire.close()

    async def _body(self, version: str, prompt_ids: Sequence[int], sampling: Sampling) -> dict[str, Any]:
        base = await self._shelf.base()
        left = (base.max_model_len or 0) - len(prompt_ids)
        if left < 1:
            raise PromptTooLong(
                f"the prompt's {len(prompt_ids)} tokens leave no room in a context of {base.max_model_len}"
            )
        if sampling.max_tokens < 1 or not prompt_ids:
            raise EngineFault("nothing to generate: max_tokens and the prompt must not be empty")
        return {
            **PLAIN,
            "model": await self._shelf.served_name(version),
            "prompt": list(prompt_ids),
            "max_tokens": min(sampling.max_tokens, left),
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "seed": sampling.seed,
            "logprobs": 0,
            "return_token_ids": True,
            "skip_special_tokens": False,
            "stop_token_ids": sorted(self._model.ends),
        }

    async def _ask(self, body: Mapping[str, Any]) -> Completion:
        try:
            answer = _read(await self._wire.post(PATH, body, reply=True))
        except Refused as error:
            raise _fault(error, body["model"]) from error
        _require_version(answer, body["model"])
        return answer

    async def _pieces(self, body: Mapping[str, Any]) -> AsyncGenerator[Choice]:
        try:
            async with aclosing(self._wire.events(PATH, body)) as events:
                async for data in events:
                    piece = _read(data)
                    _require_version(piece, body["model"])
                    if piece.choices:
                        yield piece.choices[0]
        except Refused as error:
            raise _fault(error, body["model"]) from error

    def _generation(self, request: GenerateRequest, prompt: tuple[int, ...], sampled: Sampled) -> Generation:
        if not sampled.ids:
            raise EngineFault("the server ended the reply before its first token")
        return Generation(
            version=request.version,
            prompt_ids=prompt,
            sampled_ids=tuple(sampled.ids),
            logprobs=tuple(sampled.logprobs),
            reply=self._reply(sampled.ids, request.messages),
            finish_reason=sampled.finish_reason,
        )

    def _reply(self, ids: Sequence[int], messages: Sequence[Message]) -> Message:
        spoken = ids[:-1] if ids[-1] in self._model.ends else ids
        return reply_of(self._model.template.decode(spoken), messages)


def _read(data: bytes) -> Completion:
    try:
        return Completion.model_validate_json(data)
    except ValueError as error:
        raise EngineFault(f"the server's answer can't be read: {data[:200]!r}") from error


def _sampled(answer: Completion, prompt_ids: Sequence[int]) -> Sampled:
    if len(answer.choices) != 1:
        raise EngineFault(f"the server sent {len(answer.choices)} replies, one was asked for")
    choice = answer.choices[0]
    if choice.prompt_token_ids != tuple(prompt_ids):
        raise EngineFault("the server read other tokens than it was sent")
    sampled = Sampled()
    sampled.take(choice)
    return sampled


def _require_version(answer: Completion, asked: str) -> None:
    if answer.model != asked:
        raise EngineFault(f"asked {asked}, answered by {answer.model}")


def _fault(error: Refused, asked: str) -> EngineFault:
    if error.status == HTTPStatus.NOT_FOUND:
        return UnknownVersion(f"{asked} is not loaded: {error}")
    return error
