"""How a step's time grows with sequence length and batch, and its memory with the vocabulary."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Any

from trainer.bench.measure import apart, in_turns, peak_of, spread
from trainer.bench.shapes import Load, Shape, backbone_of, base_of, samples_of
from trainer.config import LopdConfig
from trainer.methods.lopd import Lopd

LENGTHS = (256, 512, 1024, 2048, 4096, 8192)
BATCHES = (1, 2, 4, 8, 16)
VOCABULARIES = (1_000, 10_000, 50_000, 151_936)
SMALL_VOCABULARY = 8_192
MODULE = "trainer.bench.growth"


def growth(repeats: int) -> dict[str, Any]:
    """Tables of seconds by length and by batch, bytes by vocabulary."""
    few = min(repeats, 2)
    by_vocabulary = {size: apart(MODULE, str(size))["bytes"] for size in VOCABULARIES}
    return {
        "step_seconds_by_length": {length: _seconds(_long(length), few) for length in LENGTHS},
        "step_seconds_by_batch": {rows: _seconds(replace(Load(), rows=rows), few) for rows in BATCHES},
        "peak_bytes_by_vocabulary": by_vocabulary,
    }


def _long(length: int) -> Load:
    """Two trajectories of this length, always the same number of supervised tokens."""
    load = replace(Load(), rows=2, prompt=64)
    return replace(load, observed=(length - load.prompt) // load.turns - load.sampled)


def _seconds(load: Load, repeats: int) -> dict[str, float]:
    lopd = _learner(SMALL_VOCABULARY)
    samples = samples_of(load, SMALL_VOCABULARY)
    return spread(in_turns({"step": lambda: lopd.step(samples)}, repeats)["step"])


def _learner(vocabulary: int) -> Lopd:
    shape = replace(Shape(), vocabulary=vocabulary)
    lopd = Lopd(backbone_of(base_of(shape)), LopdConfig(head_chunk=64, micro_tokens=16_384, beta=1.0), 0)
    lopd.freeze()
    return lopd


if __name__ == "__main__":
    size = int(sys.argv[1])
    learner, work = _learner(size), samples_of(Load(), size)
    sys.stdout.write(json.dumps({"bytes": peak_of(lambda: learner.step(work))}) + "\n")
