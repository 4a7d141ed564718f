"""The teacher as an agent: the frozen base with latents in its prompt plays the held-out tasks itself.

What LOPD's student is pulled towards, and therefore what it can hope for. One request at a time; only for measuring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor
from transformers import DynamicCache

from agents.adapter import AdapterRef
from agents.engine import GenerateRequest, Generation
from agents.parsing.hermes import parse
from agents.transformers_engine.backbone import Backbone
from agents.transformers_engine.engine import end_ids
from agents.transformers_engine.prompt import render
from bank.message import Message, Role
from trainer.framing import encoder_text
from trainer.injection import inject
from trainer.methods.lopd import Lopd
from trainer.references import Library

TEACHER = "teacher"
DIGEST = "latents"


class Teacher:
    """An `agents.engine.Engine` with one version: the base that reads latents of the task's references."""

    def __init__(self, backbone: Backbone, lopd: Lopd, library: Library) -> None:
        self._backbone, self._lopd, self._library = backbone, lopd, library
        self._ends = set(end_ids(backbone))
        self._latents: dict[str, Tensor] = {}

    @torch.no_grad()
    async def generate(self, request: GenerateRequest) -> Generation:
        """One reply, sampled as asked."""
        prompt = render(self._backbone.tokenizer, request.messages, request.tools)
        with self._lopd.equipment.roles.apart(), self._lopd.equipment.roles.acting(None):
            sampled, logprobs = self._decode(self._embedded(request, prompt), request)
        ended = bool(sampled) and sampled[-1] in self._ends
        text = self._backbone.tokenizer.decode(sampled[:-1] if ended else sampled)
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        parsed = parse(str(text))
        named = tuple(replace(call, id=f"call_{turn}_{index}") for index, call in enumerate(parsed.tool_calls))
        reply = Message(Role.ASSISTANT, parsed.content, named)
        return Generation(TEACHER, prompt, tuple(sampled), tuple(logprobs), reply, "stop" if ended else "length")

    async def load(self, adapter: AdapterRef) -> None:
        """Nothing can be loaded here."""
        raise ValueError(f"{adapter.name}: the teacher has no other version")

    async def unload(self, name: str) -> None:
        """Nothing to forget."""

    async def versions(self) -> Mapping[str, str]:
        """The one there is."""
        return {TEACHER: DIGEST}

    async def close(self) -> None:
        """Holds nothing of its own."""

    def _embedded(self, request: GenerateRequest, prompt: tuple[int, ...]) -> Tensor:
        equipment = self._lopd.equipment
        embed, around = equipment.roles.embed, equipment.frame
        first = next(index for index, message in enumerate(request.messages) if message.role is Role.USER)
        point = equipment.points.before(request.messages[: first + 1], request.tools)
        before, after = (embed(torch.tensor(ids)) for ids in (around.before, around.after))
        return inject(embed(torch.tensor(prompt)), point, before, self._context(request.messages[first].content), after)

    def _context(self, task: str) -> Tensor:
        if task not in self._latents:
            references = self._library.references("", task)
            texts = [encoder_text(task, reference.document) for reference in references]
            self._latents[task] = self._lopd.equipment.composer.compose(texts).flatten(0, 1)
        return self._latents[task]

    def _decode(self, embeds_TD: Tensor, request: GenerateRequest) -> tuple[list[int], list[float]]:
        roles, sampling = self._lopd.equipment.roles, request.sampling
        generator = torch.Generator().manual_seed(sampling.seed or 0)
        cache = DynamicCache(config=roles.config)
        sampled: list[int] = []
        logprobs: list[float] = []
        step_1TD = embeds_TD[None]
        while len(sampled) < sampling.max_tokens and not (sampled and sampled[-1] in self._ends):
            hidden = roles.trunk(inputs_embeds=step_1TD, past_key_values=cache, use_cache=True).last_hidden_state[
                0, -1:
            ]
            logp_W = roles.head(hidden).float().log_softmax(-1)[0]
            weights_W = (logp_W / (sampling.temperature or 1.0)).softmax(-1)
            token = (
                int(torch.multinomial(weights_W, 1, generator=generator))
                if sampling.temperature
                else int(logp_W.argmax())
            )
            sampled.append(token)
            logprobs.append(logp_W[token].item())
            step_1TD = roles.embed(torch.tensor([[token]]))
        return sampled, logprobs
