"""Records that the tests of this room (and their subprocesses) store."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bank.checkpoint import Checkpoint, CheckpointStatus
from bank.episode import Episode, Split, StopReason, Turn
from bank.experience import Experience, compact_trace
from bank.feedback import Feedback
from bank.ids import new_id
from bank.ledger.ledger import Ledger
from bank.message import Message, Role, ToolCall
from bank.round import Round, RoundStatus

NOW = datetime(2026, 11, 30, 2, 0, 0, 123456, tzinfo=UTC)


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


CALL = ToolCall("call_1", "refund", '{"order": "17"}')
TURNS = (
    Turn(
        (1, 2, 3),
        (4, 5),
        (-0.1, -1.5e-7),
        Message(Role.ASSISTANT, "", (CALL,)),
        (Message(Role.TOOL, "ok", (), "call_1"),),
    ),
    Turn((1, 2, 3, 4, 5, 6), (7,), (-2.0,), Message(Role.ASSISTANT, "done")),
)
EPISODE = Episode(
    id="ep_1",
    created_at=NOW,
    task_id="desk/train/0001",
    suite="desk",
    split=Split.TRAIN,
    task="please refund order 17",
    policy="base",
    digest="d" * 64,
    opening=(Message(Role.SYSTEM, "You run the order desk."), Message(Role.USER, "please refund order 17")),
    turns=TURNS,
    stop_reason=StopReason.FINISHED,
    reward=1.0,
)


def episode(number: int = 1, **changes: Any) -> Episode:
    defaults = {"id": f"ep_{number}", "task_id": f"desk/train/{number:04d}", "created_at": later(number)}
    return replace(EPISODE, **{**defaults, **changes})


def experience(number: int = 1, **changes: Any) -> Experience:
    lived = episode(number)
    made = Experience(
        f"exp_{number}", lived.id, lived.suite, lived.task_id, lived.task, compact_trace(lived), 1.0, lived.created_at
    )
    return replace(made, **changes)


def feedback(**changes: Any) -> Feedback:
    return replace(Feedback(new_id("fb"), "ep_1", 1.0, "success", "key_1", True, "", NOW), **changes)


def round_(number: int = 1, **changes: Any) -> Round:
    return replace(Round(f"rd_{number}", f"slot-{number}", RoundStatus.QUEUED, NOW), **changes)


def checkpoint(name: str = "student-1", **changes: Any) -> Checkpoint:
    return replace(
        Checkpoint(name, f"digest of {name}", f"adapters/{name}", CheckpointStatus.CANDIDATE, NOW), **changes
    )


def fill(ledger: Ledger, count: int) -> tuple[Experience, ...]:
    """`count` episodes and their experiences, numbered from 1."""
    stored = tuple(experience(number, task=f"please refund order {number}") for number in range(1, count + 1))
    with ledger.write() as books:
        for number, one in enumerate(stored, start=1):
            books.episodes.add(episode(number))
            books.experiences.add(one)
    return stored
