"""Settings of the methods beside LOPD: each class's defaults are its source's, the field says where they come from.

The common ground of the LOPD paper's comparison (app. B.1) is here once: AdamW 1e-5, gradient clip 1, 32 rollouts a step.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from trainer.config import Frozen, LopdConfig, NonNegative, Positive, PositiveFloat, Share, StudentConfig

MethodName = Literal[
    "lopd",
    "grpo",
    "sdft",
    "opsd",
    "sdpo",
    "skill_sd",
    "sr_opsd",
    "usd",
    "anchored_opsd",
    "vanilla",
    "rejection_sft",
]
METHODS: tuple[MethodName, ...] = get_args(MethodName)
RECONSTRUCTIONS: frozenset[MethodName] = frozenset({"usd", "anchored_opsd"})
"""Built from an abstract, the rest is ours: to be said wherever a result is shown."""

Evidence = Literal["own", "retrieved", "own_or_retrieved", "sibling"]
"""What a text teacher may read. own: a success of the same task out of the bank · retrieved: the best match of another
task · own_or_retrieved: the first, else the second · sibling: another successful rollout of the same task in this step."""
Aggregation = Literal["grpo", "dapo", "dr_grpo"]


class StudentMethodConfig(Frozen):
    """What every method has: a student, and bounds on one pass."""

    student: StudentConfig = StudentConfig()
    longest: Positive = 40_000
    """Tokens of one sequence (as `LopdConfig.longest`)."""
    over_long_share: Share = 0.1
    """Share of trajectories that may be left out for their length before the step is refused."""
    micro_tokens: Positive = 16_384
    """Padded tokens of one forward and backward pass; memory, not results."""
    head_chunk: Positive = 512
    """Supervised positions whose logits exist at one time; memory, not results."""
    checkpointing: bool = False
    """Compute each layer again in the backward pass instead of keeping its activations; memory, not results."""


class TextTeacherConfig(StudentMethodConfig):
    """A teacher that reads words which the student doesn't."""

    evidence: Evidence = "own"
    wording: Literal["source", "framing"] = "source"
    """The words around the evidence. source: the method's own template. framing: ours (`trainer.framing`), at the start of
    the first user message; `tiny` was pre-trained on those and can't read the others."""
    success: Share = 1.0
    """Reward from which a sibling counts as solved (SDPO's dataclass)."""


class GrpoConfig(StudentMethodConfig):
    """GRPO, and DAPO and Dr.GRPO as options. Source: DeepSeekMath 2402.03300; clip and G of LOPD app. B.1."""

    clip_low: NonNegative = 0.2
    clip_high: NonNegative = 0.2
    """DAPO: 0.28."""
    dual_clip: Annotated[float, Field(gt=1)] | None = None
    """c of dual-clip PPO for negative advantages (verl: 3); None is the source's."""
    aggregation: Aggregation = "grpo"
    """grpo: mean over trajectories of token means. dapo: mean over all tokens. dr_grpo: sum over tokens / (rollouts x `constant_length`)."""
    constant_length: Positive = 1024
    """L_max of Dr.GRPO."""
    scale: bool = True
    """Divide by the group's standard deviation; Dr.GRPO: False."""
    kl: NonNegative = 0.0
    """β of the k3 term against the policy that the round began with (LOPD B.1 mentions none; DeepSeekMath 0.04)."""
    dynamic_sampling: bool = False
    """DAPO: leave out groups whose rewards are all equal."""
    drop_truncated: bool = False
    """DAPO's overlong filtering: rollouts that a limit ended carry no loss."""
    overlong_limit: Positive | None = None
    """DAPO's soft overlong punishment: sampled tokens from which the punishment is 1 (20480 there); None is off."""
    overlong_buffer: Positive = 4096
    """Tokens over which it rises from 0."""
    updates: Positive = 1
    """Steps of the optimizer on one batch of rollouts."""


class SdftConfig(TextTeacherConfig):
    """SDFT (2601.19897): demonstration in the first user message, forward KL (author's statement), EMA teacher."""

    ema: Share = 0.01
    """α: φ ← α θ + (1-α) φ after each step."""
    skip: Annotated[int, Field(ge=0)] = 3
    """Sampled tokens at the start of each trajectory without loss ("Following the example ...")."""
    ratio_cap: PositiveFloat = 2.0
    """Cap of the token importance ratio, whose mean over a trajectory weights it."""


class OpsdConfig(TextTeacherConfig):
    """OPSD (2601.18734): the initial policy reads the oracle trajectory; forward KL over the whole vocabulary."""

    jsd: Share = 0.0
    """β of the generalised Jensen-Shannon divergence: 0 forward KL (release of 18 March), 1 reverse KL; .5 first release."""
    pointwise_clip: PositiveFloat | None = None
    """Bound on each vocabulary entry's summand (released code .05; LOPD B.1 names none). The loss can then be negative."""
    temperature: PositiveFloat = 1.0
    """Divides both logits; the release uses its sampling temperature 1.1."""
    ema: Share = 0.0
    """0: the policy that the round began with, recommended."""


class SdpoConfig(TextTeacherConfig):
    """SDPO (2601.20802): successful sibling as context, reverse KL on the student's top-K and a tail, EMA teacher."""

    evidence: Evidence = "sibling"
    alpha: Share = 1.0
    """Generalised JSD: 1 reverse KL (LOPD B.1), 0 forward, .5 the release without rich feedback."""
    support: Positive = 100
    """K (without feedback; 20 on LiveCodeBench)."""
    tail: bool = True
    """False renormalises over the support instead."""
    tail_least: PositiveFloat = 1e-6
    """As `LopdConfig.tail_least`."""
    ratio_cap: PositiveFloat = 2.0
    """Cap of the detached importance ratio of each token."""
    ema: Share = 0.05
    feedback: bool = True
    """Without a solved sibling, the failed tool calls of the attempt itself are the context; groups without either get no loss."""


class SkillSdConfig(TextTeacherConfig):
    """Skill-SD (2604.10674): GRPO + λ · importance-weighted k3 against a teacher that reads a skill chosen by UCB1.

    The skills there are written by an external model; here a skill is the trace of one of the bank's successes.
    """

    evidence: Evidence = "retrieved"
    weight: NonNegative = 0.001
    """λ (eq. 14)."""
    exploration: NonNegative = 2**0.5
    """c of UCB1 (LOPD B.1)."""
    arms: Positive = 3
    """Skills that a task chooses among: the bank's best matches of other tasks."""
    clip_low: NonNegative = 0.2
    clip_high: NonNegative = 0.28


class SrOpsdConfig(TextTeacherConfig):
    """SR-OPSD (2608.09745): geometric target between self-teacher and reference, forward Rényi projection."""

    evidence: Evidence = "sibling"
    reference_weight: Share = 0.9
    """w of the target p_T^w p_ref^(1-w)."""
    order: Annotated[float, Field(gt=0, le=1)] = 0.95
    """ρ of the Rényi divergence; 1 is forward KL."""
    support: Positive = 100
    """The student's top entries; a tail holds the rest."""
    tail_least: PositiveFloat = 1e-6
    """As `LopdConfig.tail_least`."""
    token_clip: PositiveFloat | None = None
    """Bound on one token's loss (.05 in the release's "table-aligned" profile)."""
    entropy: NonNegative = 1e-5
    """Coefficient of the student's entropy, rewarded."""
    ratio_cap: PositiveFloat = 2.0
    ema: Share = 0.05


class UsdConfig(TextTeacherConfig):
    """USD (2608.08176), reconstruction from the abstract: difficulty, levels and every constant are ours."""

    budget: NonNegative = 0.2
    """B: mean difficulty (nats per token) that a step may ask for."""
    price: NonNegative = 0.0
    """μ before the first step."""
    price_rate: NonNegative = 0.1
    """η of μ ← [μ + η (difficulty - B)]_+."""
    levels: Positive = 4
    """The evidence is shown up to a level: that many quarters of its lines, at four levels."""


class AnchoredOpsdConfig(OpsdConfig):
    """OPSD with a canonical-context anchor (2608.07935), reconstruction from the abstract."""

    anchor_weight: NonNegative = 1.0
    """λ of the cross-entropy on the bank's own trajectory of the task; unknown in the source."""


class VanillaConfig(StudentMethodConfig):
    """No update at all: the incumbent itself, as the point of comparison."""


class RejectionSftConfig(StudentMethodConfig):
    """Rejection-sampling fine-tuning: NLL of the step's own solved rollouts, and of bank successes if asked."""

    success: Share = 1.0
    """Reward from which a rollout is learned from."""
    replay: bool = False
    """True adds the bank's successes to every step."""


AnyMethodConfig = LopdConfig | StudentMethodConfig
