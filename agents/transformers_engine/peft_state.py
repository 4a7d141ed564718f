"""Changing what is inside a PEFT model without the side effects that a trainer would notice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from peft.tuners.tuners_utils import BaseTunerLayer

from agents.engine import LoadRefused


@contextmanager
def untouched(model: PeftModel) -> Iterator[None]:
    """Put back training mode, active adapters, switches and `requires_grad` of everything that was there before.

    PEFT flips gradient flags in `set_adapter`, `add_adapter` and `disable_adapter`; an optimizer would then silently skip weights.
    """
    training, outer = model.training, model.active_adapter
    layers = [
        (layer, list(layer.active_adapters), layer.disable_adapters)
        for layer in model.modules()
        if isinstance(layer, BaseTunerLayer)
    ]
    flags = [(weight, weight.requires_grad) for weight in model.parameters()]
    try:
        yield
    finally:
        for layer, active, disabled in layers:
            layer.enable_adapters(not disabled)
            layer.set_adapter(active)
        for weight, flag in flags:
            weight.requires_grad_(flag)
        model.active_adapter = outer
        if model.training != training:
            model.train(training)


def add_frozen(model: PeftModel, adapter: str, config: LoraConfig, tensors: Mapping[str, torch.Tensor]) -> None:
    """Add an adapter with these weights, without gradients. Raises `LoadRefused` when the tensors are not exactly its own."""
    with untouched(model):
        model.add_adapter(adapter, config)
        fault = _fill(model, adapter, tensors)
        for name, weight in model.named_parameters():
            if f".{adapter}." in name:
                weight.requires_grad_(requires_grad=False)
    if fault:
        remove(model, adapter)
        raise LoadRefused(fault)


def remove(model: PeftModel, adapter: str) -> None:
    """Delete an inactive adapter."""
    with untouched(model):
        model.delete_adapter(adapter)


def _fill(model: PeftModel, adapter: str, tensors: Mapping[str, torch.Tensor]) -> str | None:
    """Copy the weights in; the reason when they are not exactly the adapter's.

    Compared before anything is copied: PEFT's loader would also write a tensor that bears the name of a base weight.
    """
    wanted = {name: weight.shape for name, weight in get_peft_model_state_dict(model, adapter_name=adapter).items()}
    missing, unexpected = sorted(wanted.keys() - tensors.keys()), sorted(tensors.keys() - wanted.keys())
    if missing or unexpected:
        return f"missing weights {missing[:3]}, unexpected weights {unexpected[:3]}"
    misfits = [name for name, shape in wanted.items() if tensors[name].shape != shape]
    if misfits:
        return f"weights do not fit this base: {misfits[:3]}"
    set_peft_model_state_dict(model, dict(tensors), adapter_name=adapter)
    return None
