"""Cold start: the composer learns to make verified successes likely (eq. 14, app. A.2).

NLL of the sampled tokens of successful trajectories with their latent context in the input; the backbone is frozen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from trainer import objective
from trainer.batch import Batch
from trainer.config import ColdStartConfig
from trainer.errors import NonFinite
from trainer.lesson import Equipment, Lesson
from trainer.sample import Sample
from trainer.updates import Learner


def cold_start(
    equipment: Equipment,
    examples: Sequence[Sample],
    config: ColdStartConfig,
    generator: torch.Generator,
    on_step: Callable[[int, float], None],
) -> None:
    """`config.steps` updates of φ on random subsets of the examples; `on_step(step, nll)` after each. Raises `NonFinite`."""
    parameters = equipment.composer.parameters()
    learner = Learner("composer", parameters, config.learning_rate, config.weight_decay, config.clip)
    for step in range(config.steps):
        chosen = torch.randperm(len(examples), generator=generator)[: config.batch].tolist()
        on_step(step, nll_step(equipment, [examples[index] for index in chosen], learner))


def nll_step(equipment: Equipment, examples: Sequence[Sample], learner: Learner) -> float:
    """One update of φ by eq. 14; returns the NLL before it (nats per token). Raises `NonFinite` before any weight moves."""
    learner.clear()
    lesson = Lesson.of(equipment, examples, attached=True)
    team = equipment.team
    total = sum(team.gather(sum(_accumulate(equipment, lesson, turn) for turn in team.turns(lesson.batches))))
    team.add_up([lesson.leaf_BLD])
    if not math.isfinite(total):
        raise NonFinite(f"cold-start loss is {total}")
    lesson.backward(None)
    learner.clip()
    learner.step()
    return total


def nll_of(equipment: Equipment, examples: Sequence[Sample]) -> float:
    """NLL of the examples under the present φ (nats per token); changes nothing."""
    with torch.no_grad():
        lesson = Lesson.of(equipment, examples, attached=True)
        return sum(_nll(equipment, lesson, batch).item() for batch in lesson.batches)


def _accumulate(equipment: Equipment, lesson: Lesson, turn: tuple[Batch, float]) -> float:
    batch, weight = turn
    loss = weight * _nll(equipment, lesson, batch)
    loss.backward()  # type: ignore[no-untyped-call]
    return loss.item()


def _nll(equipment: Equipment, lesson: Lesson, batch: Batch) -> torch.Tensor:
    hidden_SD = equipment.views.teacher(batch, lesson.leaf_BLD)
    return objective.nll(equipment.views.sampled(hidden_SD, batch.action_S), batch.weight_S)
