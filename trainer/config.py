"""Settings of the learning core: frozen, typed, each with its place in the paper (arXiv:2608.13040).

Defaults are the paper's, except where the released code or our own measurements say better;
the field says so. Settings for the shipped small model are in `trainer.presets`.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Positive = Annotated[int, Field(ge=1)]
PositiveFloat = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]


class Frozen(BaseModel):
    """Never changes, knows every key."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class ComposerConfig(Frozen):
    """Φ: encoder LoRA ψ and compressor χ (§3.2, eqs. 5-7, app. A.1)."""

    references: Positive = 3
    """J: retrieved experiences of each task (§4.1)."""
    queries: Positive = 32
    """K: latent positions of each experience (eq. 6)."""
    depth: Positive = 8
    """Applications of the one shared block (app. A.1)."""
    feed_forward: Positive = 4
    """Width multiplier of the block's feed-forward layer (app. A.1)."""
    rank: Positive = 8
    """LoRA rank of the encoder (app. A.1)."""
    alpha: PositiveFloat = 16.0
    """LoRA α of the encoder (app. A.1)."""
    scale: Literal["learned", "unit"] = "learned"
    """Size of a latent coordinate. unit: what the final LayerNorm gives, as released. learned: one factor,
    initialised to the RMS of the backbone's token embeddings (not in the paper; MemGen does so)."""
    start: Literal["identity", "random"] = "identity"
    """The compressor before the cold start. random: torch's default, the paper says no more. identity: projections hand
    the encoder's states through, so that the latents resemble what was read; on `tiny` the cold start then leaves its
    plateau within 60 steps where random projections stayed on it for 200 (README, experiment log)."""
    reads: Literal["states", "states+embeddings"] = "states"
    """What the compressor reads of each token (eq. 5). states: the encoder's last hidden states, as published. With
    embeddings added, both at unit RMS: a small model's last states tell the next token and forget the one that was read."""
    encoder_tokens: Positive = 32_768
    """Padded tokens of one encoder pass; memory, not results."""


class StudentConfig(Frozen):
    """π_θ: LoRA over the shared backbone. The paper trains full weights; one backbone in memory is our choice."""

    rank: Positive = 16
    alpha: PositiveFloat = 32.0
    learning_rate: PositiveFloat = 1e-5
    """AdamW (app. B.1)."""
    weight_decay: NonNegative = 0.01
    """Not stated in the paper; PyTorch's default, which the released code uses."""
    clip: PositiveFloat = 1.0
    """Gradient norm (app. B.1)."""


class LopdConfig(Frozen):
    """The joint phase (§3.3, eqs. 8-13, alg. 1)."""

    composer: ComposerConfig = ComposerConfig()
    student: StudentConfig = StudentConfig()

    support: Positive = 20
    """M: entries of the teacher's distribution kept beside the tail (eq. 9)."""
    tail_least: PositiveFloat = 1e-6
    """Smallest -log of the support's mass: keeps the tail's value and gradient finite (eq. 9, float32)."""
    threshold: NonNegative = 0.05
    """m: what Δ has to stay above (eq. 13; fig. 3: 0.01 is too little)."""
    constrained: bool = True
    """False drops β(m - Δ) from eq. 13; the teacher then drifts towards the student."""
    beta: NonNegative = 0.0
    """β before the first step (eq. 13)."""
    dual_rate: NonNegative = 0.5
    """η_β (eq. 13)."""
    advantage: Literal["paper", "centred"] = "paper"
    """A in eq. 12: 2r - 1, or that minus its batch mean (mostly failing batches otherwise reward unlikelihood)."""
    privilege_clip: Annotated[float, Field(gt=0)] | None = None
    """Bound on |δ| of one token in nats (eq. 11); None is the paper's."""
    anchor_weight: NonNegative = 0.2
    """λ (eq. 13). With reduction "mean" it is L·D times weaker than the paper's formula says."""
    anchor_reduction: Literal["mean", "sum"] = "mean"
    """Squared norm per element (released code) or as written in eq. 13."""
    normalisation: Literal["token", "trajectory"] = "token"
    """Means of eqs. 10, 12 and 14: over all tokens of the batch (released student loss) or per trajectory (paper)."""

    train_composer: bool = True
    """False keeps φ at φ0 (fig. 3, "frozen composer")."""
    distil_into_composer: bool = True
    """False stops the gradient of eq. 10 into φ; only margin and anchor move it then."""
    replay: bool = False
    """True adds one NLL step (eq. 14) on the bank's successes to every step, so φ keeps learning from experience."""
    composer_learning_rate: PositiveFloat = 1e-5
    """lr_φ, AdamW (app. B.1); keep it near a hundredth of a LoRA student's."""
    composer_weight_decay: NonNegative = 0.01
    """As `StudentConfig.weight_decay`."""
    composer_clip: PositiveFloat = 1.0
    """Gradient norm of φ."""
    update: Literal["joint", "sequential"] = "joint"
    """joint: one point (θ, φ) for both gradients (alg. 1). sequential: φ is judged against the student after its step."""

    longest: Positive = 40_000
    """Tokens of one sequence, latent span included (released code cuts there)."""
    over_long_share: Share = 0.1
    """Share of trajectories that may be left out for their length before the step is refused."""
    micro_tokens: Positive = 16_384
    """Padded tokens of one forward and backward pass; memory, not results."""
    head_chunk: Positive = 4096
    """Supervised positions whose logits exist at one time; memory, not results."""
    checkpointing: bool = False
    """Compute each layer again in the backward pass instead of keeping its activations; memory, not results."""
    uncertain_below: Share = 0.9
    """A token counts as uncertain in the metrics when the student's most probable entry is below this."""


class ColdStartConfig(Frozen):
    """NLL of verified successes with latents in the input, backbone frozen (eq. 14, app. A.2)."""

    steps: Annotated[int, Field(ge=0)] = 300
    """Not stated in the paper ("set per domain")."""
    batch: Positive = 32
    """Trajectories of one step, drawn with replacement across steps."""
    learning_rate: PositiveFloat = 1e-5
    weight_decay: NonNegative = 0.01
    clip: PositiveFloat = 3.0
    """Gradient norm (app. A.2)."""
