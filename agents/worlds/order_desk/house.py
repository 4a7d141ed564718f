"""House: one shop's own rules - which procedure each kind of request needs, by the status the desk shows.

Nothing in a prompt tells the rules; they can only be learned from experience. Every house is a
function of its seed. Served houses use seeds below `PRETRAINING_SEEDS`; the corpus of the `tiny` base
uses seeds from there on.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from agents.worlds.order_desk.kinds import KINDS

PRETRAINING_SEEDS = 1_000_000
LENGTH_WEIGHTS = (0.45, 0.45, 0.10)
"""How often a procedure has one, two or three calls."""

Rules = dict[tuple[str, str], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class House:
    """Rules: (kind, status) to the ordered calls that solve it."""

    seed: int
    rules: Rules

    @classmethod
    def of(cls, seed: int) -> House:
        """The house of a seed."""
        rng = random.Random(f"order-desk-house-{seed}")
        cells = [(kind, *cell) for kind in KINDS for cell in zip(kind.statuses, kind.actions, strict=True)]
        rules = {(kind.name, status): _procedure(rng, actions) for kind, status, actions in cells}
        return cls(seed, rules)


def _procedure(rng: random.Random, actions: tuple[str, ...]) -> tuple[str, ...]:
    (length,) = rng.choices((1, 2, 3), LENGTH_WEIGHTS)
    return tuple(rng.sample(actions, length))
