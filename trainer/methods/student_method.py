"""What all methods but LOPD share: one student, a step planned as micro-batches, guarded updates, complete state."""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from trainer.batch import Batch, Pair, Row, Strands, batches_of, pairs_of
from trainer.errors import NonFinite
from trainer.method_config import StudentMethodConfig
from trainer.methods.follower import Follower
from trainer.methods.published import load_student
from trainer.methods.ratios import log_ratios
from trainer.methods.text_teacher import TextTeacher, plain_point
from trainer.roles import STUDENT, Roles, copied
from trainer.sample import Sample, select
from trainer.team import ALONE, Team
from trainer.updates import Learner
from trainer.views import Passes

C = TypeVar("C", bound=StudentMethodConfig)
Losses = Mapping[str, Tensor]
"""Weighted sums over one micro-batch; `loss` is the one that is descended, the others are figures."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One step: its micro-batches, and what it counted while they were made."""

    parts: Sequence[Callable[[], Losses]]
    """Each computes one micro-batch's losses, in its graph."""
    counts: Mapping[str, float] = field(default_factory=dict)


class StudentMethod(ABC, Generic[C]):
    """A `trainer.methods.method.Method`; a method says how a step is planned."""

    references = 0

    def __init__(self, backbone: Backbone, config: C, seed: int, team: Team = ALONE) -> None:
        """Adds the adapter "student" to the backbone; at most one method per backbone."""
        self.config = config
        self.roles = Roles(backbone.model, checkpointing=config.checkpointing)
        student = config.student
        self.roles.add(STUDENT, student.rank, student.alpha, seed, trained=True)
        self.passes = Passes(self.roles, config.head_chunk)
        self.text = TextTeacher(backbone.tokenizer)
        self.team = team
        self._seed = seed
        self._followers: list[Follower] = []
        parameters = list(self.roles.parameters(STUDENT).values())
        self._learner = Learner(STUDENT, parameters, student.learning_rate, student.weight_decay, student.clip)

    @abstractmethod
    def plan(self, samples: Sequence[Sample]) -> Plan:
        """The step's micro-batches out of usable samples. No weight may move; gradients are off."""

    @property
    def updates(self) -> int:
        """Optimizer steps on one plan."""
        return 1

    def after(self, found: Mapping[str, float]) -> None:
        """What follows a step beside the student's copies: dual variables, bandits. `found` are its figures."""

    def extra(self) -> dict[str, Any]:
        """State beside weights and optimizer."""
        return {}

    def restore_extra(self, extra: Mapping[str, Any]) -> None:
        """Inverse of `extra`."""

    def add_follower(self, name: str, rate: float) -> str:
        """A copy of the student under this adapter name; returns the name."""
        self._followers.append(Follower(self.roles, name, self.config.student, self._seed, rate))
        return name

    def load_student(self, folder: Path) -> None:
        """As `Method.load_student`; copies of the student begin again from it."""
        load_student(self.roles, folder)
        for follower in self._followers:
            follower.begin()

    def step(
        self,
        samples: Sequence[Sample],
        successes: Sequence[Sample] = (),  # noqa: ARG002 - few methods replay
    ) -> dict[str, float]:
        """As `Method.step`.

        Figures: those of the method's losses, `reward`, `grad_norm_student`, `trajectories`, `tokens`, `dropped` (failed),
        `over_long`, and the plan's own counts.
        """
        config = self.config
        chosen = select(samples, config.longest, config.over_long_share)
        counts = {"dropped": float(chosen.failed), "over_long": float(chosen.over_long), "tokens": 0.0}
        if not chosen.samples:
            return counts | {"trajectories": 0.0}
        rewards = [sample.episode.reward or 0.0 for sample in chosen.samples]
        counts |= {"trajectories": float(len(rewards)), "reward": sum(rewards) / len(rewards)}
        with self.roles.apart():
            with torch.no_grad():
                plan = self.plan(chosen.samples)
            counts |= plan.counts
            if not plan.parts:
                return counts
            for _ in range(self.updates):
                counts |= self._update(plan)
        for follower in self._followers:
            follower.follow()
        self.after(counts)
        return counts

    def _update(self, plan: Plan) -> dict[str, float]:
        found = self.gradient(plan)
        norm = self._learner.clip(zero=True)
        if norm > 0:
            self._learner.step()
        return found | {"grad_norm_student": norm}

    def gradient(self, plan: Plan) -> dict[str, float]:
        """Leave the step's gradient, not yet clipped, on the student; returns its figures. Raises `NonFinite`."""
        self._learner.clear()
        total: dict[str, Tensor] = {}
        for part, weight in self.team.turns(plan.parts):
            losses = part()
            (weight * losses["loss"]).backward()  # type: ignore[no-untyped-call]
            for name, value in losses.items():
                total[name] = total.get(name, torch.zeros(())) + weight * value.detach().cpu()
        self.team.add_up(self._learner.parameters)
        found = self.team.add_up_figures({name: value.item() for name, value in total.items()})
        bad = [name for name, value in found.items() if not math.isfinite(value)]
        if bad:
            raise NonFinite(f"not finite: {', '.join(bad)}")
        return found

    def rows(self, samples: Sequence[Sample], weight_S: Tensor, advantage_S: Tensor | None = None) -> list[Row]:
        """Rows without insertion; the advantage is 0 where the method knows none."""
        strands = Strands.of(samples)
        points = [plain_point(sequence.actions) for _, sequence in strands.found]
        return strands.rows(points, weight_S, torch.zeros_like(weight_S) if advantage_S is None else advantage_S)

    def batches(self, rows: Sequence[Row]) -> list[Batch]:
        """Micro-batches of rows that carry weight."""
        kept = [row for row in rows if row.weight_S.any()]
        return batches_of(kept, self.config.micro_tokens, 0, self.device) if kept else []

    def pairs(self, rows: Sequence[Row], twins: Sequence[Row]) -> list[Pair]:
        """The same for rows and what their teacher reads."""
        kept = [index for index, row in enumerate(rows) if row.weight_S.any()]
        ours, theirs = [rows[index] for index in kept], [twins[index] for index in kept]
        return pairs_of(ours, theirs, self.config.micro_tokens, self.device) if kept else []

    @property
    def device(self) -> torch.device:
        """Where the backbone is."""
        weight: Tensor = self.roles.embed.weight
        return weight.device

    def sampled(self, hidden_SD: Tensor, batch: Batch) -> Tensor:
        """Log-probabilities of the sampled tokens, [S]."""
        return self.passes.sampled(hidden_SD, batch.action_S)

    def log_ratios(self, samples: Sequence[Sample]) -> Tensor:
        """As `Method.log_ratios`."""
        with self.roles.apart():
            return log_ratios(self.roles, self.passes, samples, self.config.micro_tokens)

    def state(self) -> dict[str, Any]:
        """As `Method.state`."""
        return {
            "student": copied(self.roles.parameters(STUDENT)),
            "student_optimizer": copy.deepcopy(self._learner.optimizer.state_dict()),
            "followers": {follower.name: follower.weights() for follower in self._followers},
            "extra": self.extra(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """As `Method.restore`."""
        self.roles.load(STUDENT, state["student"])
        self._learner.optimizer.load_state_dict(copy.deepcopy(state["student_optimizer"]))
        for follower in self._followers:
            follower.load(state["followers"][follower.name])
        self.restore_extra(state["extra"])


def parts_of(function: Callable[[Any], Losses], micro_batches: Sequence[Any]) -> list[Callable[[], Losses]]:
    """One deferred call for each micro-batch."""
    return [partial(function, micro_batch) for micro_batch in micro_batches]
