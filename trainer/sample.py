"""Sample: one rollout and the experiences that its teacher may read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agents.tools.spec import ToolSpec
from bank.episode import Episode, StopReason
from bank.experience import Experience
from trainer.errors import TooManyOverLong
from trainer.framing import encoder_text


@dataclass(frozen=True, slots=True)
class Sample:
    """One trajectory with its retrieved context."""

    episode: Episode
    references: tuple[Experience, ...]
    """Exactly J, best first, none of them of the episode's own task."""
    tools: tuple[ToolSpec, ...] = ()
    """What the prompt was rendered with; needed to find the first user message in the recorded ids."""
    own: Experience | None = None
    """A success of the same task, for methods whose teacher may read it; LOPD must not."""
    canonical: Episode | None = None
    """The episode behind `own`, with its recorded tokens."""
    importance: float = 1.0
    """π_θ(τ) / π_recorded(τ) when the step begins; 1 for a rollout of the student itself."""

    @property
    def texts(self) -> tuple[str, ...]:
        """What the encoder reads for each reference (eq. 5)."""
        return tuple(encoder_text(self.episode.task, reference.document) for reference in self.references)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a step can learn from, and what it had to leave out."""

    samples: tuple[Sample, ...]
    failed: int
    """Rollouts without a verdict: boundary fault, cancelled, never verified, nothing sampled."""
    over_long: int
    """Rollouts with a turn beyond the length limit."""


def select(samples: Sequence[Sample], longest: int, share: float) -> Selection:
    """Leave out failed and over-long rollouts, counted.

    `longest` is in tokens of the recorded ids. Raises `TooManyOverLong` above `share` of the judged rollouts.
    """
    judged = [sample for sample in samples if judgeable(sample.episode)]
    fitting = tuple(sample for sample in judged if length(sample.episode) <= longest)
    over_long = len(judged) - len(fitting)
    if over_long > share * len(judged):
        raise TooManyOverLong(
            f"{over_long} of {len(judged)} trajectories exceed {longest} tokens; allowed share {share}"
        )
    return Selection(fitting, len(samples) - len(judged), over_long)


def judgeable(episode: Episode) -> bool:
    """Whether the run has a verdict and at least one sampled token."""
    ended = episode.stop_reason not in {StopReason.FAULT, StopReason.CANCELLED}
    return ended and episode.reward is not None and any(turn.sampled_ids for turn in episode.turns)


def length(episode: Episode) -> int:
    """Tokens of the longest turn, prompt included."""
    return max(len(turn.prompt_ids) + len(turn.sampled_ids) for turn in episode.turns)
