"""Lending one adapter, or several, to a burst of forward passes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer

MIXED_BASE = "__base__"
"""PEFT's word for "no adapter" in a mixed batch."""


class Lender:
    """Switches the adapters of one model and puts everything back.

    It sets the two private attributes behind PEFT's `set_adapter` and `enable_adapters`: the public ones also rewrite
    `requires_grad` of every adapter, which the trainer would have to find and undo, and which costs more than a decoding step.
    """

    def __init__(self, model: PeftModel) -> None:
        self._model = model
        self._known: tuple[str, ...] = ()
        self._layers: list[BaseTunerLayer] = []

    @contextmanager
    def lend(self, adapters: Sequence[str | None]) -> Iterator[dict[str, list[str]]]:
        """The model set up for rows of these adapters (None is the base); yields extra arguments of its forward."""
        names = sorted({name for name in adapters if name is not None})
        mixed = len(set(adapters)) > 1
        self._find_layers()
        before = [(layer._active_adapter, layer._disable_adapters) for layer in self._layers]  # noqa: SLF001
        training = self._model.training
        if training:
            self._model.eval()
        try:
            self._set([(names, not names)] * len(self._layers))
            with torch.inference_mode():
                yield {"adapter_names": [name or MIXED_BASE for name in adapters]} if mixed else {}
        finally:
            self._set(before)
            if training:
                self._model.train()

    def _find_layers(self) -> None:
        """Again only when adapters came or went: walking the modules takes as long as a decoding step."""
        known = tuple(self._model.peft_config)
        if known != self._known:
            self._layers = [layer for layer in self._model.modules() if isinstance(layer, BaseTunerLayer)]
            self._known = known

    def _set(self, states: Sequence[tuple[str | list[str], bool]]) -> None:
        for layer, (active, disabled) in zip(self._layers, states, strict=True):
            layer._active_adapter = active  # noqa: SLF001
            layer._disable_adapters = disabled  # noqa: SLF001
