"""`python -m trainer.bench.gpu`: a short check of training steps on a GPU, with random weights of real models' shapes.

Prints one JSON object: for each shape and method the seconds of a step, supervised and processed tokens per second, the share
of the device's peak FLOPs, peak memory, and how the time splits into student, teacher and composer. Weights are random, so
nothing has to be downloaded; kernels don't care. Not run where this was developed, for want of a GPU; on a CPU it runs with
`--shape tiny`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

from trainer.bench.measure import spread
from trainer.bench.shapes import QWEN3_4B, QWEN3_8B, Load, Shape, backbone_of, base_of, samples_of
from trainer.config import LopdConfig
from trainer.lesson import Lesson
from trainer.method_config import SdftConfig
from trainer.methods.lopd import Lopd
from trainer.methods.sdft import Sdft
from trainer.roles import STUDENT
from trainer.sample import Sample

SHAPES = {"tiny": Shape(), "4b": QWEN3_4B, "8b": QWEN3_8B}
PEAK_TFLOPS = {"H100": 989.0, "H200": 989.0, "A100": 312.0, "B200": 2250.0, "L40": 181.0}
"""Dense bf16, as the vendor states it."""


@dataclass(frozen=True, slots=True)
class Device:
    """Where the check runs."""

    name: str
    dtype: torch.dtype

    def wait(self) -> None:
        """Until everything queued is done."""
        if self.name.startswith("cuda"):
            torch.cuda.synchronize(self.name)

    def seconds(self, work: Callable[[], object]) -> float:
        """Of one call, to the end of its kernels."""
        self.wait()
        began = time.perf_counter()
        work()
        self.wait()
        return time.perf_counter() - began

    @property
    def peak_flops(self) -> float | None:
        """Per second, where the device is a known one."""
        label = torch.cuda.get_device_name(self.name) if self.name.startswith("cuda") else ""
        return next((1e12 * value for key, value in PEAK_TFLOPS.items() if key in label), None)


def check(shape: Shape, load: Load, device: Device, repeats: int) -> dict[str, Any]:
    """LOPD's and SDFT's steps on one shape."""
    samples = samples_of(load, shape.vocabulary)
    found: dict[str, Any] = {"shape": asdict(shape), "load": asdict(load)}
    for name, build in (("lopd", _lopd), ("sdft", _sdft)):
        if device.name.startswith("cuda"):
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats(device.name)
        found |= _measured(name, build(shape, device), (shape, load, samples), device, repeats)
    return found


def _measured(
    name: str, method: Lopd | Sdft, work: tuple[Shape, Load, list[Sample]], device: Device, repeats: int
) -> dict[str, Any]:
    shape, load, samples = work
    method.step(samples)
    times = [device.seconds(lambda: method.step(samples)) for _ in range(repeats)]
    found = {name: _figures(name, shape, load, device, spread(times))}
    return found | ({"split_seconds": split(method, samples, device)} if isinstance(method, Lopd) else {})


def _figures(name: str, shape: Shape, load: Load, device: Device, seconds: dict[str, float]) -> dict[str, Any]:
    tokens = load.rows * load.length
    flops = step_flops(name, shape, load)
    peak = device.peak_flops
    memory = torch.cuda.max_memory_allocated(device.name) if device.name.startswith("cuda") else None
    return {
        "seconds": seconds,
        "supervised_tokens_per_second": load.rows * load.turns * load.sampled / seconds["median"],
        "tokens_per_second": tokens / seconds["median"],
        "model_flops_utilisation": None if peak is None else flops / seconds["median"] / peak,
        "peak_bytes": memory,
    }


def step_flops(name: str, shape: Shape, load: Load) -> float:
    """Floating-point operations that the step's mathematics asks for, recomputation and attention scores not counted.

    2 per weight and token forward, 2 more for the gradient of activations (the base's weights get none). Student: both.
    LOPD's teacher and encoder: both; a text teacher: forward only.
    """
    attention = shape.hidden * shape.width * (2 * shape.heads + 2 * shape.key_heads)
    weights = shape.layers * (attention + 3 * shape.hidden * shape.intermediate)
    tokens, read = load.rows * load.length, load.rows * load.references * load.reference
    passes = (
        4 * tokens + 4 * (tokens + read) if name == "lopd" else 4 * tokens + 2 * (tokens + load.rows * load.reference)
    )
    supervised = load.rows * load.turns * load.sampled
    return float(weights * passes + shape.hidden * shape.vocabulary * supervised * 8)


def split(lopd: Lopd, samples: Sequence[Sample], device: Device) -> dict[str, float]:
    """Forward seconds of composer, teacher and student, one after the other."""
    equipment = lopd.equipment
    lessons: list[Lesson] = []
    with equipment.roles.apart(), torch.no_grad():
        composer = device.seconds(lambda: lessons.append(Lesson.of(equipment, samples, attached=True)))
        (lesson,) = lessons
        teacher = device.seconds(lambda: [equipment.views.teacher(b, lesson.leaf_BLD) for b in lesson.batches])
        student = device.seconds(lambda: [equipment.views.plain(b, STUDENT) for b in lesson.batches])
    return {"composer": composer, "teacher": teacher, "student": student}


def _lopd(shape: Shape, device: Device) -> Lopd:
    base = base_of(shape, device.name, device.dtype)
    lopd = Lopd(backbone_of(base), LopdConfig(head_chunk=512, checkpointing=True, beta=1.0), 0)
    lopd.freeze()
    return lopd


def _sdft(shape: Shape, device: Device) -> Sdft:
    base = base_of(shape, device.name, device.dtype)
    return Sdft(backbone_of(base), SdftConfig(head_chunk=512, checkpointing=True), 0)


def main(arguments: Sequence[str]) -> int:
    """Check the asked shapes; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m trainer.bench.gpu", description="Steps of real shapes, random weights."
    )
    parser.add_argument("--shape", choices=[*SHAPES, "all"], default="all", help="all: 4b and 8b")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args(arguments)
    device = Device(options.device, getattr(torch, options.dtype))
    load = replace(Load(), rows=options.rows, prompt=512, sampled=64)
    load = replace(load, observed=max(0, (options.length - load.prompt) // load.turns - load.sampled))
    names = ["4b", "8b"] if options.shape == "all" else [options.shape]
    found = {name: check(SHAPES[name], load, device, options.repeats) for name in names}
    sys.stdout.write(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
