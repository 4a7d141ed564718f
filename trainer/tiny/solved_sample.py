"""A solved order-desk task as a recorded episode with references of the same house."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from transformers import PreTrainedTokenizerBase

from agents.transformers_engine.prompt import render
from agents.worlds.order_desk.suite import FINAL_ANSWER, NAME, SYSTEM, TOOLS
from bank.episode import Episode, Split, StopReason, Turn
from bank.experience import Experience
from bank.message import Message, Role, ToolCall
from trainer.sample import Sample
from trainer.tiny.corpus import Solved

WRITTEN = datetime(2026, 1, 1, tzinfo=UTC)


def sample_of(
    tokenizer: PreTrainedTokenizerBase, index: int, solved: Solved, references: Sequence[Solved], reward: float = 1.0
) -> Sample:
    """The solved task as the gold policy would have been recorded, log-probabilities 0."""
    found = tuple(_experience(item, index, number) for number, item in enumerate(references))
    return Sample(episode_of(tokenizer, index, solved, reward), found, TOOLS)


def episode_of(tokenizer: PreTrainedTokenizerBase, index: int, solved: Solved, reward: float = 1.0) -> Episode:
    """The episode alone."""
    opening = (Message(Role.SYSTEM, SYSTEM), Message(Role.USER, solved.text))
    replies = [_call(number, *step) for number, step in enumerate(solved.steps)]
    messages, turns = list(opening), []
    for reply, observations in [*replies, (Message(Role.ASSISTANT, FINAL_ANSWER), ())]:
        turns.append(_turn(tokenizer, messages, reply, observations))
        messages += [reply, *observations]
    return Episode(
        id=f"ep_{index}",
        created_at=WRITTEN,
        task_id=f"{NAME}-0/train/{index:04d}",
        suite=f"{NAME}-0",
        split=Split.TRAIN,
        task=solved.text,
        policy="gold",
        digest="gold",
        opening=opening,
        turns=tuple(turns),
        stop_reason=StopReason.FINISHED,
        reward=reward,
    )


def _call(number: int, name: str, arguments: dict[str, Any], result: str) -> tuple[Message, tuple[Message, ...]]:
    call = ToolCall(f"call_{number}", name, json.dumps(arguments))
    return Message(Role.ASSISTANT, "", (call,)), (Message(Role.TOOL, result, tool_call_id=call.id),)


def _turn(
    tokenizer: PreTrainedTokenizerBase, messages: list[Message], reply: Message, observations: tuple[Message, ...]
) -> Turn:
    prompt = render(tokenizer, messages, TOOLS)
    after = render(tokenizer, [*messages, reply], TOOLS)
    end = len(after) - after[::-1].index(tokenizer.eos_token_id)
    sampled = after[len(prompt) : end]
    return Turn(prompt, sampled, (0.0,) * len(sampled), reply, observations)


def _experience(solved: Solved, index: int, number: int) -> Experience:
    task, trace = solved.document().split("\n", 1)
    name = f"{index}-{number}"
    return Experience(f"exp_{name}", f"ep_{name}", f"{NAME}-0", f"other/{name}", task, trace, 1.0, WRITTEN)
