"""`python -m trainer.compare`: every method under the same conditions. Composition root of this process."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agents.model_folder import model_folder
from agents.suites import open_suite
from bank.embedding.choose import open_embedder
from trainer.compare.arm import Place, result_of
from trainer.compare.plan import SIZES, TUNING_SEED, Arm, Run, Size, arms_of, run_of, suite_of
from trainer.compare.report import write
from trainer.round_config import RoundConfig, defaults_for

UNTUNED = (0.0, 1.0)
Finished = tuple[Run, Mapping[str, Any]]


class Comparison:
    """All runs of one command, in order, with what is left shown after each."""

    def __init__(self, place: Place, options: argparse.Namespace, defaults: RoundConfig) -> None:
        self._place, self._suite, self._defaults = place, options.suite, defaults
        self._size: Size = SIZES[options.size]
        self._arms = arms_of(options.methods, options.ablations)
        self._seeds = range(options.seeds)
        self._total = len(self._arms) * options.seeds + len(self._tuned) * len(self._size.factors)
        self._done, self._began = 0, time.monotonic()

    @property
    def _tuned(self) -> list[Arm]:
        """Ablations use the learning rate of the method that they vary, so that nothing else differs."""
        plain = {arm.method: Arm(arm.method, arm.method) for arm in self._arms if arm.method != "vanilla"}
        return list(plain.values())

    def to_end(self) -> Path:
        """Tune, run, report."""
        trials = [self._trial(arm, factor) for arm in self._tuned for factor in self._size.factors]
        best: dict[str, tuple[float, float]] = {}
        for run, factor, reward in trials:
            best[run.arm.method] = max(best.get(run.arm.method, (-1.0, 0.0)), (reward, factor))
        finals: list[Finished] = []
        for seed in self._seeds:
            finals += [self._run(arm, seed, "final", best.get(arm.method, UNTUNED)[1]) for arm in self._arms]
        told = [
            {"label": r.arm.label, "learning_rate": r.rate, "seed": r.seed, "reward": reward} for r, _, reward in trials
        ]
        return write(self._place.folder, finals, told, self._size)

    def _trial(self, arm: Arm, factor: float) -> tuple[Run, float, float]:
        run, result = self._run(arm, TUNING_SEED, "tune", factor)
        return run, factor, result["curve"][-1]["reward"] if result["curve"] and not result["error"] else -1.0

    def _run(self, arm: Arm, seed: int, phase: str, factor: float) -> Finished:
        run = run_of(arm, self._suite, seed, self._size, phase, self._defaults, factor)
        result = result_of(self._place, run, _tell)
        self._done += 1
        left = (time.monotonic() - self._began) / self._done * (self._total - self._done)
        _tell(f"[{self._done}/{self._total}] {run.key} done, about {left / 60:.0f} min left")
        return run, result


def main(arguments: Sequence[str]) -> int:
    """Run the comparison; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        arms_of(options.methods, options.ablations)
        open_suite(suite_of(options.suite, 0))
        place = Place(options.out, model_folder(options.model), open_embedder(options.embedder, None))
    except (ValueError, FileNotFoundError) as error:
        sys.stderr.write(f"compare: {error}\n")
        return 2
    _tell(f"report: {Comparison(place, options, defaults_for(options.model)).to_end()}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ratchet compare", description="Every method under the same conditions.")
    parser.add_argument(
        "--suite", default="order_desk", help="with :<seed> every run gets that world, else each seed its own"
    )
    parser.add_argument("--methods", default="all", help="all, or names with commas")
    parser.add_argument("--ablations", default="", help="all, or labels with commas: variants of lopd")
    parser.add_argument("--seeds", type=_positive, default=5)
    parser.add_argument("--size", choices=list(SIZES), default="small")
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument(
        "--out", type=Path, default=Path("reports/compare"), help="finished runs found there are not made again"
    )
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def _tell(line: str) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {line}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
