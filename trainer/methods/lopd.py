"""LOPD: Latent On-Policy Self-Distillation (arXiv:2608.13040)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agents.transformers_engine.backbone import Backbone
from trainer import objective
from trainer.batch import Batch
from trainer.cold_start import cold_start, nll_step
from trainer.composer import Composer, FrozenLatents
from trainer.config import ColdStartConfig, LopdConfig
from trainer.errors import NonFinite, NotAnchored
from trainer.injection import InsertionPoints, frame
from trainer.lesson import Equipment, Lesson
from trainer.measure import Scored, figures, joined
from trainer.methods.published import load_student
from trainer.methods.ratios import log_ratios
from trainer.roles import ANCHOR, ENCODER, STUDENT, Roles, copied
from trainer.sample import Sample, select
from trainer.team import ALONE, Team
from trainer.updates import Learner
from trainer.views import Views


class Lopd:
    """The learner: student θ, composer φ, dual variable β over one frozen backbone.

    Algorithm 1, in our words; the caller (`trainer.round`) does 1 and 2, `step` does 3 to 9:

    1. roll the student out, alone, on a batch of tasks; verify each run: r, A = 2r - 1
    2. retrieve J experiences of other tasks for each task
    3. compose them into latent context c_φ                                        (5-7)
    4. score the visited prefixes as student (no context) and as teacher (with c_φ) (8)
    5. keep the teacher's top M entries and a tail                                  (9)
    6. reverse KL student to teacher over sampled tokens                            (10)
    7. privilege of the sampled tokens and the batch margin Δ                       (11, 12)
    8. one step on θ and φ down L + β(m - Δ) + λ‖c_φ - c_φ0‖²                       (13)
    9. β ← [β + η_β (m - Δ)]_+

    Where we deviate (each is a field of `LopdConfig`):
    - the student is a LoRA over the frozen backbone, not a second full model;
    - token means in 10 and 12, and the anchor is a mean over elements, as in the released code;
    - the latents' size is a learned factor that starts at the embeddings' RMS;
    - the compressor starts at identity, and may read token embeddings beside the states (`composer.start`, `.reads`);
    - over-long and failed rollouts are left out and counted, never cut or silently dropped.
    The release steps student and composer one after the other on the student's *old* log-probabilities. Both gradients are
    then taken at the same point with separate clips and optimizers, which is `update="joint"` exactly; our "sequential"
    judges the composer against the student after its step.
    """

    def __init__(self, backbone: Backbone, config: LopdConfig, seed: int, team: Team = ALONE) -> None:
        """Adds the adapters "student", "encoder" and "anchor" to the backbone; at most one `Lopd` per backbone."""
        self.config = config
        self.references = config.composer.references
        self.beta = config.beta if config.constrained else 0.0
        self._anchored = False
        self._generator = torch.Generator().manual_seed(seed)
        self.equipment = _equip(backbone, config, seed, team)
        roles, composer = self.equipment.roles, self.equipment.composer
        student = config.student
        self._student = Learner(
            STUDENT, list(roles.parameters(STUDENT).values()), student.learning_rate, student.weight_decay, student.clip
        )
        self._composer = Learner(
            "composer",
            composer.parameters(),
            config.composer_learning_rate,
            config.composer_weight_decay,
            config.composer_clip,
        )

    def load_student(self, folder: Path) -> None:
        """Start from a published adapter. Raises KeyError or ValueError when its shape isn't the configured student's."""
        load_student(self.equipment.roles, folder)

    def log_ratios(self, samples: Sequence[Sample]) -> Tensor:
        """As `Method.log_ratios`."""
        with self.equipment.roles.apart():
            return log_ratios(self.equipment.roles, self.equipment.views, samples, self.config.micro_tokens)

    def cold_start(
        self, examples: Sequence[Sample], config: ColdStartConfig, on_step: Callable[[int, float], None]
    ) -> None:
        """Train φ on verified successes (eq. 14), then freeze φ0 := φ. Raises `NonFinite`."""
        with self.equipment.roles.apart():
            cold_start(self.equipment, examples, config, self._generator, on_step)
        self.freeze()

    def freeze(self) -> None:
        """φ0 := φ."""
        self.equipment.frozen.replace(self.equipment.composer.weights())
        self._anchored = True

    def step(self, samples: Sequence[Sample], successes: Sequence[Sample] = ()) -> dict[str, float]:
        """One update of θ, φ and β from a batch of rollouts; returns the figures of the step.

        `successes` (verified, from the bank) are used by `config.replay` only. Figures: `loss` (eq. 13), those of
        `trainer.measure.figures`, `anchor` (without λ), `beta` (after the step), `reward` (mean of the rollouts used),
        `grad_norm_student` and `grad_norm_composer` (before clipping), `trajectories`, `sequences`, `dropped` (failed),
        `over_long`, `replay_nll`. Without a usable rollout nothing is updated and only counts are returned.
        Raises `NonFinite` before any weight moves, `NoGradient`, `TooManyOverLong`, `BadSpan`, `NoInsertionPoint`.
        """
        if not self._anchored:
            raise NotAnchored("cold_start, load_composer or restore comes before the first step")
        config = self.config
        longest = config.longest - self.equipment.frame.length
        chosen = select(samples, longest, config.over_long_share)
        counts = {"dropped": float(chosen.failed), "over_long": float(chosen.over_long)}
        if not chosen.samples:
            return counts | {"tokens": 0.0, "trajectories": 0.0, "beta": self.beta}
        update = self._joint if config.update == "joint" else self._sequential
        with self.equipment.roles.apart():
            found = update(chosen.samples)
        if config.constrained:
            self.beta = objective.dual_update(self.beta, found["margin"], config.threshold, config.dual_rate)
        if config.replay and successes:
            found["replay_nll"] = nll_step(self.equipment, successes, self._composer)
        rewards = [sample.episode.reward or 0.0 for sample in chosen.samples]
        reward = sum(rewards) / len(rewards)
        return found | counts | {"trajectories": float(len(rewards)), "reward": reward, "beta": self.beta}

    @property
    def trained(self) -> list[Tensor]:
        """Every weight of θ and φ."""
        return [*self._student.parameters, *self._composer.parameters]

    def gradient(self, samples: Sequence[Sample]) -> dict[str, float]:
        """Leave the joint gradient, clipped, on θ and φ; returns its figures. No weight moves."""
        with self.equipment.roles.apart():
            return self._gradients(samples, student=True, composer=True)

    def _joint(self, samples: Sequence[Sample]) -> dict[str, float]:
        found = self._gradients(samples, student=True, composer=self.config.train_composer)
        self._student.step()
        if self.config.train_composer:
            self._composer.step()
        return found

    def _sequential(self, samples: Sequence[Sample]) -> dict[str, float]:
        before = self.state()
        found = self._gradients(samples, student=True, composer=False)
        self._student.step()
        if not self.config.train_composer:
            return found
        try:
            later = self._gradients(samples, student=False, composer=True)
        except NonFinite:
            self.restore(before)
            raise
        self._composer.step()
        return found | {name: later[name] for name in ("anchor", "grad_norm_composer")}

    def _gradients(self, samples: Sequence[Sample], *, student: bool, composer: bool) -> dict[str, float]:
        """Leave clipped gradients on the asked learners; no weight moves. Raises `NonFinite`, `NoGradient`."""
        config = self.config
        self._student.clear()
        self._composer.clear()
        with torch.set_grad_enabled(composer):
            lesson = Lesson.of(self.equipment, samples, attached=config.train_composer)
        team = self.equipment.team
        turns = team.turns(lesson.batches)
        found_here = [self._backward(lesson, turn, student=student, composer=composer) for turn in turns]
        mine = [part for part, (_, weight) in zip(found_here, turns, strict=True) if weight]
        scored = joined([part for parts in team.gather(mine) for part in parts])
        team.add_up([*(self._student.parameters if student else []), *([lesson.leaf_BLD] if composer else [])])
        found = figures(scored, config.uncertain_below) | {"sequences": float(lesson.rows), "anchor": 0.0}
        if composer:
            anchor = objective.anchor(lesson.context_BLD, lesson.start(self.equipment), config.anchor_reduction)
            lesson.backward(config.anchor_weight * anchor)
            found["anchor"] = anchor.item()
        found["loss"] = (
            found["kl"] + self.beta * (config.threshold - found["margin"]) + config.anchor_weight * found["anchor"]
        )
        _check_finite(found)
        found["grad_norm_student"] = self._student.clip() if student else 0.0
        found["grad_norm_composer"] = self._composer.clip(zero=not config.distil_into_composer) if composer else 0.0
        return found

    def _backward(self, lesson: Lesson, turn: tuple[Batch, float], *, student: bool, composer: bool) -> Scored:
        """Equations 8 to 13 on one micro-batch, weighted."""
        views = self.equipment.views
        batch, weight = turn
        with torch.set_grad_enabled(composer):
            teacher_SD = views.teacher(batch, lesson.leaf_BLD)
        with torch.set_grad_enabled(student):
            student_SD = views.student(batch)
        found_SX = views.rowwise(self._scored, student_SD, teacher_SD, others=(batch.action_S, batch.advantage_S))
        (weight * batch.weight_S @ found_SX[:, 0]).backward()  # type: ignore[no-untyped-call]
        return Scored(batch.weight_S, batch.advantage_S, *found_SX.detach()[:, 1:].unbind(1))

    def _scored(self, student_SW: Tensor, teacher_SW: Tensor, action_S: Tensor, advantage_S: Tensor) -> Tensor:
        """Each token's part of L + β (m - Δ), then its values in the order of `Scored`, [S, 7]."""
        config = self.config
        index_SM = objective.support(teacher_SW, config.support)
        asked_SN = torch.cat([index_SM, action_S[:, None]], dim=1)
        teacher_SN, student_SN = (objective.log_probs(each, asked_SN) for each in (teacher_SW, student_SW))
        target_SN = teacher_SN if config.distil_into_composer else teacher_SN.detach()
        p_teacher_SN = objective.with_tail(target_SN[:, :-1], config.tail_least)
        p_student_SN = objective.with_tail(student_SN[:, :-1], config.tail_least)
        kl_S = objective.reverse_kl(p_student_SN, p_teacher_SN)
        delta_S = objective.privilege(teacher_SN[:, -1], student_SN[:, -1], config.privilege_clip)
        loss_S = objective.lagrangian(kl_S, advantage_S * delta_S, self.beta, config.threshold)
        peak_S = student_SN[:, :-1].amax(1).exp()
        values = (kl_S, delta_S, teacher_SN[:, -1], student_SN[:, -1], p_teacher_SN[:, -1].exp(), peak_S)
        return torch.stack([loss_S, *values], dim=1)

    def state(self) -> dict[str, Any]:
        """Everything that the next step depends on, as copies; `torch.save` can write it. Not the cache of φ0's latents."""
        return {
            "student": copied(self.equipment.roles.parameters(STUDENT)),
            **self.composer_state(),
            "anchored": self._anchored,
            "beta": self.beta,
            "student_optimizer": copy.deepcopy(self._student.optimizer.state_dict()),
            "composer_optimizer": copy.deepcopy(self._composer.optimizer.state_dict()),
            "generator": self._generator.get_state(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Inverse of `state`.

        φ0's latents are computed again when they are asked for, in other micro-batches than before: the next step is
        what it would have been up to their rounding.
        """
        self.load_composer(state)
        self.equipment.roles.load(STUDENT, state["student"])
        self._anchored = state["anchored"]
        self.beta = state["beta"]
        self._student.optimizer.load_state_dict(copy.deepcopy(state["student_optimizer"]))
        self._composer.optimizer.load_state_dict(copy.deepcopy(state["composer_optimizer"]))
        self._generator.set_state(state["generator"])

    def composer_state(self) -> dict[str, Any]:
        """φ and φ0, to be carried to the next round."""
        return {"composer": self.equipment.composer.weights(), "anchor": self.equipment.frozen.composer.weights()}

    def load_composer(self, state: dict[str, Any]) -> None:
        """Go on with the φ and φ0 of an earlier round."""
        self.equipment.composer.load(state["composer"])
        self.equipment.frozen.replace(state["anchor"])
        self._anchored = True


def _equip(backbone: Backbone, config: LopdConfig, seed: int, team: Team) -> Equipment:
    roles = Roles(backbone.model, checkpointing=config.checkpointing)
    roles.add(STUDENT, config.student.rank, config.student.alpha, seed, trained=True)
    roles.add(ENCODER, config.composer.rank, config.composer.alpha, seed + 1, trained=True)
    roles.add(ANCHOR, config.composer.rank, config.composer.alpha, seed + 1, trained=False)
    with torch.random.fork_rng():
        torch.manual_seed(seed + 2)
        composer, start = (Composer(roles, backbone.tokenizer, name, config.composer) for name in (ENCODER, ANCHOR))
    around = frame(backbone.tokenizer, config.composer.references * config.composer.queries)
    return Equipment(
        config=config,
        roles=roles,
        views=Views(roles, around, config.head_chunk),
        composer=composer,
        frozen=FrozenLatents(start),
        frame=around,
        points=InsertionPoints(backbone.tokenizer),
        team=team,
    )


def _check_finite(found: dict[str, float]) -> None:
    bad = [name for name, value in found.items() if not math.isfinite(value)]
    if bad:
        raise NonFinite(f"not finite: {', '.join(bad)}")
