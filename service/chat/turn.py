"""ChatTurn: the answer to one request while it is being made."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from agents.engine import EngineFault, GenerateRequest, Generation, PromptTooLong, Sampling
from agents.limits import Limits
from agents.loop import trust, turn_seed
from bank.episode import Episode, StopReason, Turn
from bank.ids import new_id
from bank.message import Message
from service.chat.thread import Thread
from service.chat.wish import Wish
from service.errors import RETRY_AFTER, ServiceError
from service.fleet import Lease
from service.worlds import live_task

TOO_LONG = "context_length_exceeded"
"""OpenAI's word for it: clients cut their history when they read it."""
CORRECTIONS = 2
"""How often a model is told what is wrong with its calls before the client hears of it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply that is on record."""

    episode: Episode
    shown: Message
    turns: tuple[Turn, ...]
    """The model calls that this request took."""
    cut: bool
    """The reply was cut off by its token limit."""


@dataclass(frozen=True, slots=True)
class Question:
    """All that a turn needs to know."""

    thread: Thread
    wish: Wish
    sampling: Sampling
    owner: str
    stored: bool = True
    episode_id: str = field(default_factory=lambda: new_id("ep"))
    created_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def id(self) -> str:
        """Of the episode: the one that goes on, or a new one."""
        return self.episode_id if self.thread.episode is None else self.thread.episode.id


class ChatTurn:
    """Works in a task of its own; a client who leaves cancels it, and the engine with it."""

    def __init__(self, question: Question, lease: Lease, record: Callable[[Question, Answer], Awaitable[None]]) -> None:
        self.question = question
        self.lease = lease
        self._record = record
        self._turns: list[Turn] = []
        self._working: asyncio.Task[Answer] | None = None

    def start(self, held: ExitStack) -> None:
        """Begin; `held` (seat and lease) is given back at the end."""
        self._working = asyncio.create_task(self._to_end(held))
        # a client who left does not come for the error
        self._working.add_done_callback(lambda task: task.cancelled() or task.exception())

    def cancel(self) -> None:
        """End it now. What is on its way to the ledger gets there."""
        if self._working is not None:
            self._working.cancel()

    async def end(self) -> Answer:
        """The recorded answer. Raises `ServiceError`."""
        if self._working is None:
            raise RuntimeError("the turn was not started")
        return await asyncio.shield(self._working)

    async def _to_end(self, held: ExitStack) -> Answer:
        with held:
            try:
                async with asyncio.timeout(Limits().seconds):
                    answer = await self._answer()
                await self._record(self.question, answer)
            except asyncio.CancelledError:
                raise ServiceError(503, "shutting_down", "the request was ended", headers=RETRY_AFTER) from None
            except TimeoutError:
                raise ServiceError(503, "time_limit", "the model did not answer in time", headers=RETRY_AFTER) from None
            except PromptTooLong as error:
                raise ServiceError(400, TOO_LONG, str(error)) from None
            except EngineFault as error:
                raise ServiceError(503, "engine_fault", str(error), headers=RETRY_AFTER) from None
            return answer

    async def _answer(self) -> Answer:
        wish = self.question.wish
        for left in reversed(range(CORRECTIONS + 1)):
            generation = await self._ask()
            verdict = wish.judge(generation.reply, last=not left)
            cut = generation.finish_reason == "length"
            observations = verdict.answers
            if not verdict.met and not generation.reply.tool_calls:
                observations = (*observations, wish.reminder)
            evidence = generation.prompt_ids, generation.sampled_ids, generation.logprobs
            self._turns.append(Turn(*evidence, reply=generation.reply, observations=observations))
            if verdict.met:
                return Answer(self._episode(verdict.shown, cut=cut), verdict.shown, tuple(self._turns), cut)
        raise ServiceError(422, "tool_choice_unmet", "the model did not make the call that tool_choice asks for")

    async def _ask(self) -> Generation:
        question = self.question
        own = [message for turn in self._turns for message in (turn.reply, *turn.observations)]
        seed, number = question.sampling.seed, len(self._turns)
        sampling = replace(question.sampling, seed=turn_seed(seed, number)) if seed is not None else question.sampling
        messages = (*question.thread.messages, *own)
        request = GenerateRequest(self.lease.version, messages, question.wish.offered, sampling)
        generation = await self.lease.replica.generate(request)
        trust(generation, request)
        calls = tuple(replace(call, id=new_id("call")) for call in generation.reply.tool_calls)
        return replace(generation, reply=replace(generation.reply, tool_calls=calls))

    def _episode(self, shown: Message, *, cut: bool) -> Episode:
        stop = StopReason.WAITING if shown.tool_calls else StopReason.TOKEN_LIMIT if cut else StopReason.FINISHED
        begun = self.question.thread.episode
        if begun is not None:
            return replace(begun, turns=(*begun.turns, *self._turns), stop_reason=stop)
        task = live_task(self.question.thread.transcript.task)
        return Episode(
            id=self.question.id,
            created_at=self.question.created_at,
            task_id=task.id,
            suite=task.suite,
            split=task.split,
            task=task.text,
            policy=self.lease.version,
            digest=self.lease.digest,
            opening=self.question.thread.messages,
            turns=tuple(self._turns),
            stop_reason=stop,
            owner=self.question.owner,
        )
