"""Vanilla: no learning. The line that every curve is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from trainer.method_config import VanillaConfig
from trainer.methods.student_method import Plan, StudentMethod
from trainer.sample import Sample


class Vanilla(StudentMethod[VanillaConfig]):
    """The incumbent as it is."""

    def plan(self, samples: Sequence[Sample]) -> Plan:  # noqa: ARG002 - nothing is learned from them
        """Nothing."""
        return Plan(())
