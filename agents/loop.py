"""The agent loop: model, tool calls, observations, until a `StopReason`.

Three kinds of failure, and no fourth:
- a stop (`StopReason`): the model is done, or a limit or the repeat guard ends the run;
- a tool error: unknown tool, bad arguments, an exception in a tool. Its text goes back to the model;
- a boundary fault: engine, environment or verifier failed. Recorded on the episode, never rewarded.
Everything else is a bug and propagates. The messages are the trajectory: nothing is re-assembled later.
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from agents.engine import Engine, EngineFault, GenerateRequest, Generation, Sampling
from agents.environment import EnvironmentFault, Session, Task
from agents.guard import RepeatGuard
from agents.limits import Limits
from agents.tools.cap import WHOLE_CHARACTERS, cap_result
from agents.tools.check import CallCheck, ToolError
from bank.episode import Episode, StopReason, Turn
from bank.message import Message, Role, ToolCall

INTERRUPTED = "error: interrupted"
"""The observation of a call whose run ended before its result: no call stays unanswered in the record."""
ERROR_CHARACTERS = 800


@dataclass(frozen=True, slots=True)
class Run:
    """What one run is about."""

    episode_id: str
    task: Task
    version: str
    """Explicit version name, used for every turn."""
    digest: str
    limits: Limits = field(default_factory=Limits)
    sampling: Sampling = field(default_factory=Sampling)
    """A seed here is the run's: turn `i` samples with a seed derived from it and `i`."""
    owner: str | None = None


async def run_episode(
    engine: Engine, session: Session, run: Run, on_turn: Callable[[Turn], None] | None = None
) -> Episode:
    """Play one task to its end; `on_turn` sees every turn once its tools have answered.

    A cancelled run raises `asyncio.CancelledError` after `on_turn` saw its last turn, if the model had replied.
    """
    walk = _Walk(engine, session, run, on_turn)
    started = datetime.now(UTC)
    stop, reward, fault = StopReason.FAULT, None, None
    try:
        stop = await walk.to_end()
        reward = _verdict(session)
    except (EngineFault, EnvironmentFault) as error:
        stop, fault = StopReason.FAULT, f"{type(error).__name__}: {error}"
    return Episode(
        id=run.episode_id,
        created_at=started,
        task_id=run.task.id,
        suite=run.task.suite,
        split=run.task.split,
        task=run.task.text,
        policy=run.version,
        digest=run.digest,
        opening=tuple(session.opening),
        turns=tuple(walk.turns),
        stop_reason=stop,
        reward=reward,
        fault=fault,
        owner=run.owner,
        whole_results=walk.whole_results,
    )


class _Walk:
    """One run in progress."""

    def __init__(self, engine: Engine, session: Session, run: Run, on_turn: Callable[[Turn], None] | None) -> None:
        self.turns: list[Turn] = []
        self.whole_results: dict[str, str] = {}
        self._engine = engine
        self._session = session
        self._run = run
        self._on_turn = on_turn
        self._messages = list(session.opening)
        self._tokens = run.limits.tokens
        self._check = CallCheck(session.tools)
        self._guard = RepeatGuard(run.limits.repeats)

    async def to_end(self) -> StopReason:
        """Step until something stops the run. The deadline is enforced from outside, by the event loop."""
        deadline = asyncio.get_running_loop().time() + self._run.limits.seconds
        try:
            async with asyncio.timeout_at(deadline) as clock:
                while (stop := self._exhausted(deadline) or await self._step()) is None:
                    pass
        except TimeoutError:
            if not clock.expired():
                raise
            return StopReason.TIME_LIMIT
        return stop

    async def _step(self) -> StopReason | None:
        generation = await self._query()
        observations = await self._act(generation)
        return self._stop(generation, observations)

    def _exhausted(self, deadline: float) -> StopReason | None:
        if len(self.turns) >= self._run.limits.steps:
            return StopReason.STEP_LIMIT
        if self._tokens <= 0:
            return StopReason.TOKEN_LIMIT
        # A world or engine that never yields also never lets the outer deadline fire.
        return StopReason.TIME_LIMIT if asyncio.get_running_loop().time() >= deadline else None

    async def _query(self) -> Generation:
        turn, sampling = len(self.turns), self._run.sampling
        seed = None if sampling.seed is None else turn_seed(sampling.seed, turn)
        sampling = replace(sampling, seed=seed, max_tokens=min(sampling.max_tokens, self._tokens))
        request = GenerateRequest(self._run.version, tuple(self._messages), self._session.tools, sampling)
        generation = await self._engine.generate(request)
        trust(generation, request)
        self._tokens -= len(generation.sampled_ids)
        calls = generation.reply.tool_calls
        named = tuple(replace(call, id=f"call_{turn}_{index}") for index, call in enumerate(calls))
        return replace(generation, reply=replace(generation.reply, tool_calls=named))

    async def _act(self, generation: Generation) -> tuple[Message, ...]:
        """Answer the calls of one reply; they start in order, overlap where tools wait, and keep their order."""
        calls = generation.reply.tool_calls
        answers = [asyncio.create_task(self._answer(call)) for call in calls]
        try:
            await asyncio.gather(*answers)
        finally:
            observations = tuple(map(_observation, calls, answers))
            self._record(generation, observations)
        return observations

    def _record(self, generation: Generation, observations: tuple[Message, ...]) -> None:
        self._messages += (generation.reply, *observations)
        evidence = generation.prompt_ids, generation.sampled_ids, generation.logprobs
        self.turns.append(Turn(*evidence, reply=generation.reply, observations=observations))
        if self._on_turn is not None:
            self._on_turn(self.turns[-1])

    async def _answer(self, call: ToolCall) -> str:
        try:
            arguments = self._check.arguments(call)
            with _boundary(ToolError):
                result = self._session.call(call.name, arguments)
                result = await result if inspect.isawaitable(result) else result
                if not isinstance(result, str):
                    raise TypeError(f"{call.name} returned {type(result).__name__}, not text")
        except ToolError as error:
            return cap_result(f"error: {error}", min(ERROR_CHARACTERS, self._run.limits.result_characters))
        shown = cap_result(result, self._run.limits.result_characters)
        if shown != result:
            self.whole_results[call.id] = cap_result(result, WHOLE_CHARACTERS)
        return shown

    def _stop(self, generation: Generation, observations: Sequence[Message]) -> StopReason | None:
        calls = generation.reply.tool_calls
        if not calls:
            # An answer that was cut off is not an answer.
            return StopReason.TOKEN_LIMIT if generation.finish_reason == "length" else StopReason.FINISHED
        return StopReason.REPEATED if self._guard.caught(calls, observations) else None


def turn_seed(seed: int, turn: int) -> int:
    """Seed of one turn, below 2**63; turns of a run never share one by accident."""
    return int.from_bytes(hashlib.sha256(json.dumps([seed, turn]).encode()).digest()[:8]) >> 1


def _observation(call: ToolCall, answer: asyncio.Task[str]) -> Message:
    """The tool message of one call; an unfinished call is cancelled and says so."""
    answer.cancel()
    failed = not answer.done() or answer.cancelled() or answer.exception() is not None
    return Message(Role.TOOL, INTERRUPTED if failed else answer.result(), tool_call_id=call.id)


def trust(generation: Generation, request: GenerateRequest) -> None:
    """What an engine must get right for its reply to be recorded under this version's name. Raises `EngineFault`."""
    if generation.version != request.version:
        raise EngineFault(f"asked {request.version}, answered by {generation.version}")
    if len(generation.sampled_ids) != len(generation.logprobs):
        raise EngineFault(f"{len(generation.sampled_ids)} tokens with {len(generation.logprobs)} log-probabilities")
    if not all(map(math.isfinite, generation.logprobs)):
        raise EngineFault("a log-probability is not finite")


def _verdict(session: Session) -> float | None:
    with _boundary(EnvironmentFault):
        reward = session.verify()
    if reward is None:
        return None
    if type(reward) not in (int, float) or not 0.0 <= reward <= 1.0:
        raise EnvironmentFault(f"the verifier said {reward!r}, not a number in [0, 1]")
    return float(reward)


@contextmanager
def _boundary(kind: type[Exception]) -> Iterator[None]:
    """Name a world's exception: foreign code may raise anything, and what it raises is data."""
    try:
        yield
    except EnvironmentFault:
        raise
    except Exception as error:
        # A KeyError's own text puts its message in quotes.
        detail = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        raise kind(detail or type(error).__name__) from error
