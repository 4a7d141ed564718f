"""vLLM plugin: on the CPU, rows of the base must not get the adapter of the last slot.

vLLM marks a row without adapter with slot -1. Its GPU kernels skip such rows; the CPU backend (0.32) indexes with it, which in
torch is the last slot. Once every slot has been used, a request for the base that shares a batch with an adapter is answered
by a mixture of both, without an error. Here the rows' low-rank products are set to zero, so nothing is added to them.
Seen: `tests/agents/test_vllm_engine.py::test_the_base_stays_the_base_when_every_slot_is_taken` fails without this.
"""

from __future__ import annotations

from typing import Any


def apply() -> None:
    """Wrap the CPU backend's shrink operation; again changes nothing. vLLM calls this in each of its processes."""
    from vllm.lora.ops.torch_ops import lora_ops  # noqa: PLC0415 - exists only inside a server
    from vllm.lora.punica_wrapper import punica_cpu  # noqa: PLC0415

    plain = lora_ops.bgmv_shrink
    if getattr(plain, "spares_the_base", False):
        return

    def shrink(inputs: Any, weights: Any, output: Any, slots: Any, scaling: float = 1.0) -> None:
        plain(inputs, weights, output, slots, scaling)
        output[slots < 0] = 0

    shrink.spares_the_base = True  # type: ignore[attr-defined]
    lora_ops.bgmv_shrink = punica_cpu.bgmv_shrink = shrink
