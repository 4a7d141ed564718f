"""The pre-training corpus of `tiny`: solved order-desk episodes of many random houses.

Part of the episodes carry one to three solved references of the same house in the first user
message, so the base learns to use what stands in its context. No house that can be served is among them.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from agents.worlds.order_desk.house import PRETRAINING_SEEDS, House
from agents.worlds.order_desk.kinds import CITIES, KINDS, ORDERS, Kind
from agents.worlds.order_desk.suite import FINAL_ANSWER, SYSTEM, TOOLS, gold_calls
from trainer.framing import with_references

TOOLS_WIRE = [tool.to_wire() for tool in TOOLS]


@dataclass(frozen=True, slots=True)
class Mix:
    """How the corpus is composed."""

    referenced: float = 0.75
    """Share of episodes with references in context."""
    same_kind: float = 0.85
    """Chance that a reference is of the task's own kind, as a retriever would bring it."""
    same_status: float = 0.5
    """Chance that a reference of the same kind also shows the task's status; 1 makes copying easy to discover."""
    most_references: int = 3


@dataclass(frozen=True, slots=True)
class Solved:
    """One solved task of a house."""

    text: str
    steps: tuple[tuple[str, dict[str, Any], str], ...]
    """(tool, arguments, observation), in order."""

    def document(self) -> str:
        """The experience's document: task, then action-result lines, as `bank.experience` writes it."""
        lines = [
            f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())}) -> {result}"
            for name, arguments, result in self.steps
        ]
        return "\n".join((self.text, *lines, FINAL_ANSWER))

    def messages(self, references: list[str]) -> list[dict[str, Any]]:
        """The whole conversation."""
        text = with_references(self.text, references) if references else self.text
        opening = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
        turns = [message for step in self.steps for message in _turn(*step)]
        return [*opening, *turns, {"role": "assistant", "content": FINAL_ANSWER}]


def _turn(name: str, arguments: dict[str, Any], result: str) -> tuple[dict[str, Any], dict[str, Any]]:
    call = {"type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "tool", "content": result}


def solve(rng: random.Random, house: House, kind: Kind, status: str) -> Solved:
    """A random task of this kind and status, solved by the house's rules."""
    order, city = rng.choice(ORDERS), rng.choice(CITIES)
    text = rng.choice((*kind.phrases, *kind.held_out_phrases)).format(order=order, city=city)
    calls = gold_calls(house.rules[kind.name, status], order, city)
    seen = json.dumps({"status": status})
    steps = tuple((name, dict(arguments), seen if name == "get_order" else "ok") for name, arguments in calls)
    return Solved(text, steps)


def unserved_house(rng: random.Random) -> House:
    """A random house that no suite serves."""
    return House.of(PRETRAINING_SEEDS + rng.randrange(1 << 40))


def conversations(seed: int, mix: Mix) -> Iterator[list[dict[str, Any]]]:
    """Endless corpus; every conversation has a house of its own."""
    rng = random.Random(f"tiny-corpus-{seed}")
    while True:
        house = unserved_house(rng)
        kind = rng.choice(KINDS)
        status = rng.choice(kind.statuses)
        references = _references(rng, house, (kind, status), mix) if rng.random() < mix.referenced else []
        yield solve(rng, house, kind, status).messages(references)


def _references(rng: random.Random, house: House, cell: tuple[Kind, str], mix: Mix) -> list[str]:
    return [reference_of(rng, house, cell, mix).document() for _ in range(rng.randint(1, mix.most_references))]


def reference_of(rng: random.Random, house: House, cell: tuple[Kind, str], mix: Mix) -> Solved:
    """A solved task as a retriever might bring it for a task of this kind and status."""
    kind, status = cell
    if rng.random() >= mix.same_kind:
        kind = rng.choice(KINDS)
    if status not in kind.statuses or rng.random() >= mix.same_status:
        status = rng.choice(kind.statuses)
    return solve(rng, house, kind, status)
