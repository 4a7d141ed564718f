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
SERVED_LENGTHS = (0.65, 0.30, 0.05)
"""How often a served house's procedure has one, two or three calls. A bank that a weak base fills must show most rules:
with the corpus's lengths one to three of sixteen never got in, and bounded what any student could learn."""
CORPUS_LENGTHS = (0.45, 0.45, 0.10)
"""The same for the pre-training corpus, which has to show all lengths often."""

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
        lengths = SERVED_LENGTHS if seed < PRETRAINING_SEEDS else CORPUS_LENGTHS
        rules = {(kind.name, status): _procedure(rng, actions, lengths) for kind, status, actions in cells}
        return cls(seed, rules)


def _procedure(rng: random.Random, actions: tuple[str, ...], lengths: tuple[float, ...]) -> tuple[str, ...]:
    (length,) = rng.choices((1, 2, 3), lengths)
    return tuple(rng.sample(actions, length))
