"""`python -m trainer.gate`: the verdict's error rates on simulated gates; writes reports/gate.json and its picture."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bank.gate_report import Verdict
from bank.sequential import Differences, peak

EFFECTS = (-0.10, -0.05, 0.0, 0.05, 0.10, 0.15, 0.20, 0.30)
DISCORDANT = 0.15
"""Share of tasks that change sides by chance alone, half of them each way."""
CONFIDENCE = 0.95


def main(arguments: Sequence[str] | None = None) -> None:
    """Simulate, print the table, write the report."""
    parser = argparse.ArgumentParser(prog="python -m trainer.gate", description=__doc__)
    parser.add_argument("--gates", type=int, default=2_000, help="simulated gates at each effect size")
    parser.add_argument("--tasks", type=int, default=208, help="held-out tasks of a gate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("reports"))
    options = parser.parse_args(arguments)
    report = simulate(options.gates, options.tasks, options.seed)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "gate.json").write_text(json.dumps(report, indent=2) + "\n")
    FigureCanvasAgg(picture(report)).print_figure(options.out / "gate.png", format="png")
    for effect, shares in report["verdicts"].items():
        print(f"effect {float(effect):+.2f}", *(f"{name} {share:.4f}" for name, share in shares.items()))  # noqa: T201
    print(f"false promotions {report['false_promotion_rate']:.4f}, stated {report['stated_rate']:.4f}")  # noqa: T201


def simulate(gates: int, tasks: int, seed: int) -> dict[str, Any]:
    """Shares of verdicts at each effect size. A gate is looked at after every task and ends at its first decision.

    false_promotion_rate: the highest share of `better` at an effect of zero or below · miss_rate: share not called better,
    by positive effect · undecided_rate: by effect.
    """
    rng = np.random.default_rng(seed)
    verdicts = {effect: _shares([first_verdict(draw(rng, effect, tasks)) for _ in range(gates)]) for effect in EFFECTS}
    return {
        "method": "confidence sequence by betting, uniform mixture of fixed shares, a look after every task",
        "gates": gates * len(EFFECTS),
        "gates_per_effect": gates,
        "tasks": tasks,
        "discordant_by_chance": DISCORDANT,
        "confidence": CONFIDENCE,
        "seed": seed,
        "effect_sizes": list(EFFECTS),
        "stated_rate": (1.0 - CONFIDENCE) / 2.0,
        "false_promotion_rate": max(shares["better"] for effect, shares in verdicts.items() if effect <= 0.0),
        "miss_rate": {str(effect): 1.0 - shares["better"] for effect, shares in verdicts.items() if effect > 0.0},
        "undecided_rate": {str(effect): shares["undecided"] for effect, shares in verdicts.items()},
        "verdicts": {str(effect): shares for effect, shares in verdicts.items()},
    }


def draw(rng: np.random.Generator, effect: float, tasks: int) -> Differences:
    """Paired outcomes -1, 0 or 1 whose mean is `effect`: chance moves both ways, the effect one way."""
    wins, losses = DISCORDANT / 2 + max(effect, 0.0), DISCORDANT / 2 + max(-effect, 0.0)
    return rng.choice([1.0, 0.0, -1.0], size=tasks, p=[wins, 1.0 - wins - losses, losses])


def first_verdict(differences: Differences) -> Verdict:
    """What whoever looks after every task and stops at the first decision gets to see: the test's worst case."""
    rich = -np.log((1.0 - CONFIDENCE) / 2.0)
    better, worse = peak(differences, 0.0), peak(-differences, 0.0)
    if better < rich and worse < rich:
        return Verdict.UNDECIDED
    return (
        Verdict.BETTER if better >= rich and _first(differences, rich) <= _first(-differences, rich) else Verdict.WORSE
    )


def picture(report: Mapping[str, Any]) -> Figure:
    """Shares of verdicts over the effect size."""
    figure = Figure(figsize=(7.0, 4.0), layout="constrained")
    axes = figure.subplots()
    for name in Verdict:
        shares = [report["verdicts"][str(effect)][name.value] for effect in report["effect_sizes"]]
        axes.plot(report["effect_sizes"], shares, marker="o", label=name.value)
    axes.axhline(report["stated_rate"], linestyle=":", color="grey", label="stated rate of false promotions")
    axes.set(
        xlabel="true difference of success rates", ylabel="share of gates", title=f"{report['tasks']} paired tasks"
    )
    axes.legend(fontsize="small")
    return figure


def _first(differences: Differences, rich: float) -> int:
    """Number of tasks after which a gambler is rich for the first time; one more than all of them if never."""
    low, high = 1, len(differences) + 1
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if peak(differences[:middle], 0.0) >= rich else (middle + 1, high)
    return low


def _shares(verdicts: Sequence[Verdict]) -> dict[str, float]:
    return {name.value: sum(verdict is name for verdict in verdicts) / len(verdicts) for name in Verdict}


if __name__ == "__main__":
    main()
