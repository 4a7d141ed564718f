"""`python -m trainer.bench`: reports/trainer.json, every ratio with its spread.

Speed against the released procedure and TRL in turns in this process, memory in processes of their own, growth last.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from trainer.bench.growth import growth
from trainer.bench.measure import apart, in_turns, peak_of, ratios, spread
from trainer.bench.released import Released
from trainer.bench.rivals import batch_of, trl_step, trl_version
from trainer.bench.shapes import SINGLE_TURN, Load, Shape, backbone_of, base_of, samples_of, tokenizer
from trainer.compare.report import machine
from trainer.config import ComposerConfig, LopdConfig, StudentConfig
from trainer.method_config import SdftConfig, SdpoConfig
from trainer.methods.lopd import Lopd
from trainer.methods.sdft import Sdft
from trainer.methods.sdpo import Sdpo
from trainer.sample import Sample

MODULE = "trainer.bench"
CHUNK = 16
"""Supervised positions whose logits exist at one time: where memory is compared."""
FAST_CHUNK = 128
"""The same where only time is."""
LOPD = LopdConfig(
    student=StudentConfig(clip=1e9),
    composer_clip=1e9,
    composer=ComposerConfig(encoder_tokens=1024),
    head_chunk=CHUNK,
    checkpointing=True,
    micro_tokens=2048,
    beta=1.0,
)
"""Unclipped, so that gradients can be compared."""


def released_speed(repeats: int) -> dict[str, Any]:
    """Tokens per second of our joint step over the released procedure's, and how far loss and gradient are apart."""
    lopd, samples = _lopd(), samples_of(Load(), Shape().vocabulary)
    with tempfile.TemporaryDirectory() as folder:
        plain = Released(lopd, _saved(lopd, Path(folder)))
        ours_loss, ours = _ours(lopd, samples)
        _clear(lopd)
        theirs_loss = plain.step(samples)
        theirs = _gradient(lopd)
        _clear(lopd)

        def released() -> None:
            plain.step(samples)
            _clear(lopd)

        found = in_turns({"ours": lambda: _ours(lopd, samples), "released": released}, repeats)
    tokens = sum(len(turn.sampled_ids) for sample in samples for turn in sample.episode.turns)
    return {
        "vs_released_tokens": ratios(found["released"], found["ours"]),
        "seconds": {name: spread(values) for name, values in found.items()},
        "supervised_tokens": tokens,
        "loss": {"ours": ours_loss, "released": theirs_loss},
        "gradient_difference": ((ours - theirs).norm() / theirs.norm()).item(),
    }


def trl_speed(repeats: int) -> dict[str, Any]:
    """Seconds of whole steps on one single-turn batch: TRL's sdft and sdpo, ours, and our lopd."""
    version = trl_version()
    if version is None:
        return {"trl": None, "reason": "trl is not installed: pip install 'ratchet-agent[bench]'"}
    samples = samples_of(SINGLE_TURN, Shape().vocabulary)
    sdft = Sdft(backbone_of(base_of(Shape())), SdftConfig(head_chunk=FAST_CHUNK), 0)
    sdpo = Sdpo(backbone_of(base_of(Shape())), SdpoConfig(head_chunk=FAST_CHUNK, evidence="own"), 0)
    lopd, reads = _lopd(head_chunk=FAST_CHUNK, checkpointing=False, micro_tokens=8192), tokenizer()
    works: dict[str, Any] = {
        "sdft": lambda: sdft.step(samples),
        "sdpo": lambda: sdpo.step(samples),
        "lopd": lambda: lopd.step(samples),
    }
    with tempfile.TemporaryDirectory() as folder:
        for name, method in (("sdft", sdft), ("sdpo", sdpo)):
            prompts = [method.text.rendered(method.opening(each, samples) or (), each) for each in samples]
            batch = batch_of(samples, prompts, reads.pad_token_id)
            works[f"trl_{name}"] = trl_step(name, base_of(Shape()), reads, batch, Path(folder))
        found = in_turns(works, repeats)
    return {
        "trl": version,
        "vs_trl_sdft": ratios(found["trl_sdft"], found["sdft"]),
        "vs_trl_sdpo": ratios(found["trl_sdpo"], found["sdpo"]),
        "lopd_vs_trl_sdft": ratios(found["trl_sdft"], found["lopd"]),
        "trl_seconds": {name: spread(values) for name, values in found.items()},
    }


def memory(name: str) -> int:
    """Peak bytes above the loaded model of one step: "ours" or "released"."""
    lopd, samples = _lopd(), samples_of(Load(), Shape().vocabulary)
    if name == "ours":
        return peak_of(lambda: _ours(lopd, samples))
    with tempfile.TemporaryDirectory() as folder:
        plain = Released(lopd, _saved(lopd, Path(folder)))
        return peak_of(lambda: plain.step(samples))


def released_memory(repeats: int) -> dict[str, Any]:
    """Peak of the released procedure over ours, each in fresh processes."""
    peaks = {name: [apart(MODULE, "--memory", name)["bytes"] for _ in range(repeats)] for name in ("released", "ours")}
    return {
        "vs_released_memory": ratios(peaks["released"], peaks["ours"]),
        "peak_bytes": {name: spread(values) for name, values in peaks.items()},
    }


def _lopd(**changes: Any) -> Lopd:
    lopd = Lopd(backbone_of(base_of(Shape())), LOPD.model_copy(update=changes), 0)
    lopd.freeze()
    return lopd


def _ours(lopd: Lopd, samples: Sequence[Sample]) -> tuple[float, torch.Tensor]:
    found = lopd.gradient(samples)
    return found["loss"], _gradient(lopd)


def _gradient(lopd: Lopd) -> torch.Tensor:
    return torch.cat([weight.grad.flatten() for weight in lopd.trained if weight.grad is not None])


def _clear(lopd: Lopd) -> None:
    for weight in lopd.trained:
        weight.grad = None


def _saved(lopd: Lopd, folder: Path) -> Path:
    path = folder / "base.safetensors"
    base = {
        name: weight.detach() for name, weight in lopd.equipment.roles.trunk.named_parameters() if "lora" not in name
    }
    save_file(base, path)
    return path


def main(arguments: Sequence[str]) -> int:
    """Measure and write; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.bench")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("reports/trainer.json"))
    parser.add_argument("--memory", choices=["ours", "released"], help="print the peak of one step and leave")
    options = parser.parse_args(arguments)
    if options.memory:
        sys.stdout.write(json.dumps({"bytes": memory(options.memory)}) + "\n")
        return 0
    report = {"machine": machine(), "repeats": options.repeats, "head_chunk": CHUNK}
    for part in (released_memory, released_speed, trl_speed, growth):
        report |= part(options.repeats)
        sys.stderr.write(f"{part.__name__} done\n")
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(report, indent=1) + "\n")
    sys.stderr.write(f"{options.out}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
