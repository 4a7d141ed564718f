"""Methods by name."""

from __future__ import annotations

from typing import Any

from agents.transformers_engine.backbone import Backbone
from trainer.method_config import AnyMethodConfig, MethodName
from trainer.methods.anchored_opsd import AnchoredOpsd
from trainer.methods.grpo import Grpo
from trainer.methods.lopd import Lopd
from trainer.methods.method import Method
from trainer.methods.opsd import Opsd
from trainer.methods.rejection_sft import RejectionSft
from trainer.methods.sdft import Sdft
from trainer.methods.sdpo import Sdpo
from trainer.methods.skill_sd import SkillSd
from trainer.methods.sr_opsd import SrOpsd
from trainer.methods.usd import Usd
from trainer.methods.vanilla import Vanilla
from trainer.team import ALONE, Team

# each takes (backbone, its own settings, seed, team); which settings belong to which is `RoundConfig`'s fields
REGISTRY: dict[MethodName, Any] = {
    "lopd": Lopd,
    "grpo": Grpo,
    "sdft": Sdft,
    "opsd": Opsd,
    "sdpo": Sdpo,
    "skill_sd": SkillSd,
    "sr_opsd": SrOpsd,
    "usd": Usd,
    "anchored_opsd": AnchoredOpsd,
    "vanilla": Vanilla,
    "rejection_sft": RejectionSft,
}


def open_method(name: MethodName, backbone: Backbone, config: AnyMethodConfig, seed: int, team: Team = ALONE) -> Method:
    """The method over this backbone; at most one per backbone."""
    method: Method = REGISTRY[name](backbone, config, seed, team)
    return method
