"""TransformersEngine: the `Engine` protocol on one machine, without a server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from agents.adapter import AdapterRef
from agents.engine import EngineFault, GenerateRequest, Generation, PromptTooLong, Sampling
from agents.parsing.reply import reply_of
from agents.transformers_engine.backbone import Backbone
from agents.transformers_engine.decode import Decoder
from agents.transformers_engine.prompt import render
from agents.transformers_engine.residents import Residents
from agents.transformers_engine.rows import Row
from agents.transformers_engine.sampling import generator_of
from agents.transformers_engine.worker import Worker
from bank.message import Message

CACHE_BYTES = 128 * 2**20
"""Keys and values kept for the next turns of conversations."""


class TransformersEngine:
    """Several versions over one `Backbone`, decoded together.

    Training on the same backbone must not run while requests are in flight; after a generation the model's active
    adapters and gradient flags are as they were.
    """

    def __init__(self, backbone: Backbone, max_batch: int = 64, cache_bytes: int = CACHE_BYTES) -> None:
        """Raises `ValueError` for an architecture whose layers do not all attend to everything, and off the CPU."""
        config = backbone.model.config
        if backbone.model.device.type != "cpu":
            raise ValueError(f"this engine decodes on the CPU, the model is on {backbone.model.device}; use vLLM there")
        if set(getattr(config, "layer_types", None) or ("full_attention",)) != {"full_attention"}:
            raise ValueError(f"{config.model_type}: sliding or linear attention is served by vLLM only")
        self._backbone = backbone
        self._context: int = config.max_position_embeddings
        self._vocabulary: int = config.vocab_size
        self._ends = end_ids(backbone)
        self._residents = Residents(backbone)
        self._decoder = Decoder(backbone.model, self._ends, self._residents, cache_bytes)
        self._worker = Worker(self._decoder, self._residents, max_batch)

    async def generate(self, request: GenerateRequest) -> Generation:
        """One reply. Raises `UnknownVersion`, `PromptTooLong`, or `EngineFault` when the engine failed."""
        prompt = render(self._backbone.tokenizer, request.messages, request.tools)
        row = await self._run(self._row(request.version, prompt, request.sampling))
        return Generation(
            version=row.resident.version,
            prompt_ids=row.prompt,
            sampled_ids=tuple(row.sampled),
            logprobs=tuple(row.logprobs),
            reply=self._reply(row, request.messages),
            finish_reason=row.finish_reason or "length",
        )

    async def score(self, version: str, prompt_ids: Sequence[int], sampled_ids: Sequence[int]) -> list[float]:
        """Log-probs in nats of `sampled_ids` after `prompt_ids` under a version, at temperature 1, untruncated."""
        if not sampled_ids:
            return []
        row = self._row(version, tuple(prompt_ids), Sampling(temperature=0, max_tokens=len(sampled_ids)))
        row.sampled.extend(sampled_ids)
        try:
            if row.limit < len(sampled_ids):
                raise EngineFault(f"{len(row.tokens)} tokens do not fit a context of {self._context}")
            return await asyncio.wrap_future(self._worker.call(lambda: self._decoder.score(row)))
        finally:
            self._residents.release(row.resident)

    async def load(self, adapter: AdapterRef) -> None:
        """Verify and load a published folder between two steps of decoding. Raises `LoadRefused`."""
        await asyncio.wrap_future(self._worker.call(lambda: self._residents.load(adapter)))

    async def unload(self, name: str) -> None:
        """No new requests for `name`; its memory is freed once those already admitted finished."""
        await asyncio.wrap_future(self._worker.call(lambda: self._residents.forget(name)))

    async def versions(self) -> Mapping[str, str]:
        """Resident versions with digests; `base` among them."""
        return self._residents.versions()

    async def close(self) -> None:
        """Stop the worker; requests in flight fail with `EngineFault`."""
        await asyncio.to_thread(self._worker.close)

    def adopt(self, version: str, adapter: str, digest: str) -> None:
        """Serve a trainer's adapter that lives in the backbone's model, by its PEFT name. Raises `LoadRefused`."""
        self._residents.adopt(version, adapter, digest)

    def retire(self, version: str) -> None:
        """Stop serving an adopted version; the adapter stays in the model.

        Returns between two bursts, so that a trainer whose requests all ended, cancelled ones too, may use the model at
        once. Raises `EngineFault` when the engine is closed.
        """
        self._residents.forget(version)
        self._worker.call(lambda: None).result()

    def _row(self, version: str, prompt: tuple[int, ...], sampling: Sampling) -> Row:
        left = self._context - len(prompt)
        if left < 1:
            raise PromptTooLong(f"the prompt's {len(prompt)} tokens leave no room in a context of {self._context}")
        if sampling.max_tokens < 1 or not prompt:
            raise EngineFault("nothing to generate: max_tokens and the prompt must not be empty")
        if not 0 <= min(prompt) <= max(prompt) < self._vocabulary:
            raise EngineFault(f"token ids must be below {self._vocabulary}")
        limit = min(sampling.max_tokens, left)
        future: Future[Row] = Future()
        return Row(prompt, sampling, self._residents.lease(version), limit, generator_of(sampling), future)

    async def _run(self, row: Row) -> Row:
        try:
            self._worker.submit(row)
            return await asyncio.wrap_future(row.future)
        finally:
            self._residents.release(row.resident)

    def _reply(self, row: Row, messages: Sequence[Message]) -> Message:
        ids = row.sampled[:-1] if row.sampled[-1] in self._ends else row.sampled
        text = str(self._backbone.tokenizer.decode(ids, skip_special_tokens=False))
        return reply_of(text, messages)


def end_ids(backbone: Backbone) -> frozenset[int]:
    """Tokens that end a reply: the generation config's, and the tokenizer's."""
    told = backbone.model.generation_config.eos_token_id
    listed = [told] if isinstance(told, int) else list(told or ())
    own = backbone.tokenizer.eos_token_id
    return frozenset([*listed, *([own] if isinstance(own, int) else [])])
