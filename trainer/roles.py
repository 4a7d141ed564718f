"""One backbone, several roles: which adapter acts is decided here and nowhere else in this room.

`student` acts with its adapter, the composer's encoder with `encoder` (its cold-start copy with `anchor`), the teacher
with none. Adapters are never merged, so the base weights stay bit-identical and every version can come back.
PEFT holds the adapters (the engine serves "student" straight from there); while this room computes, PEFT's own forward
is off and the acting adapter's term comes from a hook on each projection (`trainer.low_rank`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from typing import Any

import torch
from peft import LoraConfig, PeftModel
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn
from torch.distributed.tensor import DTensor
from torch.utils.checkpoint import checkpoint

from agents.adapter import PROJECTIONS
from trainer.low_rank import LowRank
from trainer.trunk import Trunk, usable

STUDENT = "student"
ENCODER = "encoder"
ANCHOR = "anchor"


class Roles:
    """Switches a shared PEFT model between roles."""

    def __init__(self, model: PeftModel, *, checkpointing: bool = False) -> None:
        """`checkpointing` keeps a layer's input only and computes the layer again in the backward pass.

        Raises ValueError without it over a sharded base: only computing a layer again gathers its weights again.
        """
        if not checkpointing and any(isinstance(weight, DTensor) for weight in model.parameters()):
            raise ValueError("a sharded backbone needs checkpointing=True")
        self._model = model
        self.checkpointing = checkpointing
        self._layers: list[Any] = [module for module in model.modules() if isinstance(module, LoraLayer)]
        self._trained: list[nn.Parameter] = []
        lm: Any = model.get_base_model()
        self.trunk: Any = lm.base_model
        """Everything below the language-model head; last hidden states are after the final norm."""
        self.head: Any = lm.get_output_embeddings()
        self.embed: Any = lm.get_input_embeddings()
        self.config: Any = lm.config
        packable = usable(self.trunk, lm.config) and not checkpointing
        self.packed = Trunk(self.trunk, lm.config) if packable else None
        """The same layers without padding, where we have them."""

    def add(self, name: str, rank: int, alpha: float, seed: int, *, trained: bool) -> None:
        """A fresh LoRA adapter on all projections, without dropout, fp32; computes what the base does until trained."""
        lora = LoraConfig(
            r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=list(PROJECTIONS), task_type="CAUSAL_LM"
        )
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self._model.add_adapter(name, lora)
        if trained:
            self._trained += self.parameters(name).values()
        self._set_gradients()

    def parameters(self, name: str) -> dict[str, nn.Parameter]:
        """The adapter's weights by their full names."""
        return {key: value for key, value in self._model.named_parameters() if f".{name}." in key}

    def load(self, name: str, weights: dict[str, Tensor]) -> None:
        """Overwrite the adapter in place. Raises KeyError or ValueError when names or shapes differ."""
        parameters = self.parameters(name)
        if any(weights[key].shape != parameter.shape for key, parameter in parameters.items()):
            raise ValueError(f"{name}: the weights have another rank or width")
        with torch.no_grad():
            for key, parameter in parameters.items():
                parameter.copy_(weights[key])

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Switch PEFT's own forward off for a while; what acted before acts again afterwards. May be nested."""
        if self._layers[0].disable_adapters:
            yield
            return
        for layer in self._layers:
            layer.enable_adapters(enabled=False)
        self._set_gradients()
        try:
            yield
        finally:
            for layer in self._layers:
                layer.enable_adapters(enabled=True)
            self._set_gradients()

    @contextmanager
    def acting(self, name: str | None) -> Iterator[None]:
        """Let one adapter act, or none (the teacher)."""
        with self.apart(), ExitStack() as stack:
            for layer in self._layers if name else ():
                handle = layer.get_base_layer().register_forward_hook(_adding(layer, name))
                stack.callback(handle.remove)
            if self.checkpointing:
                stack.enter_context(self._recomputing(name))
            yield

    @contextmanager
    def _recomputing(self, name: str | None) -> Iterator[None]:
        """Checkpoint the decoder's layers; the same adapter acts again when a layer is computed for its gradient.

        A layer asks for its own `training` flag only; its parts stay in evaluation mode.
        """
        again = partial(checkpoint, use_reentrant=False, context_fn=lambda: (nullcontext(), self.acting(name)))
        before = [(layer, vars(layer).copy()) for layer in self.trunk.layers]
        for layer in self.trunk.layers:
            layer.training, layer.gradient_checkpointing, layer._gradient_checkpointing_func = True, True, again  # noqa: SLF001
        try:
            yield
        finally:
            for layer, flags in before:
                layer.training = flags["training"]
                layer.gradient_checkpointing = flags.get("gradient_checkpointing", False)

    def _set_gradients(self) -> None:
        # PEFT ties requires_grad to what acts; here two adapters are trained at once, one after the other in the graph
        self._model.requires_grad_(requires_grad=False)
        for parameter in self._trained:
            parameter.requires_grad_(True)


def _adding(layer: Any, name: str | None) -> Callable[[nn.Module, tuple[Tensor, ...], Tensor], Tensor]:
    a_RI, b_OR, scaling = layer.lora_A[name].weight, layer.lora_B[name].weight, layer.scaling[name]

    def add(_: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        added: Tensor = LowRank.apply(output, inputs[0], a_RI, b_OR, scaling)  # type: ignore[no-untyped-call]
        return added

    return add


def copied(parameters: dict[str, nn.Parameter]) -> dict[str, Tensor]:
    """Detached copies."""
    return {key: value.detach().clone() for key, value in parameters.items()}
