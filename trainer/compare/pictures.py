"""The curves of a comparison as PNG files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

DOTS_PER_INCH = 120
SIZE_INCHES = (11.0, 5.0)


def curves(arms: Sequence[Mapping[str, Any]], figure_name: str, title: str) -> bytes:
    """Held-out figure against rollouts, without and with the rollouts of the bank, intervals shaded."""
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for arm in arms:
        name = f"{arm['label']}*" if arm["note"] else arm["label"]
        for axes, shift in ((left, 0.0), (right, arm["bank_rollouts"] if arm["uses_bank"] else 0.0)):
            points = arm[figure_name]
            x = [point["rollouts"] + shift for point in points]
            (line,) = axes.plot(x, [point["mean"] for point in points], marker=".", label=name)
            low, high = [point["low"] for point in points], [point["high"] for point in points]
            axes.fill_between(x, low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    left.set(xlabel="rollouts of the student", ylabel=f"held-out {figure_name}", title=title)
    right.set(xlabel="rollouts, those that filled the bank included")
    right.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize="small", title="* reconstruction")
    return _png(figure)


def inside(arms: Sequence[Mapping[str, Any]]) -> bytes:
    """Δ, β and KL of the arms that report them, step by step."""
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    for axes, name in zip(figure.subplots(1, 3), ("margin", "beta", "kl"), strict=True):
        for arm in arms:
            values = arm["learning"].get(name)
            if values:
                axes.plot(range(1, len(values) + 1), values, label=arm["label"])
        axes.set(xlabel="step", title=name)
        if axes.lines:
            axes.legend(fontsize="x-small")
    return _png(figure)


def _png(figure: Figure) -> bytes:
    buffer = BytesIO()
    FigureCanvasAgg(figure).print_figure(buffer, format="png", dpi=DOTS_PER_INCH)
    return buffer.getvalue()
