"""The picture of a round: reward over rollouts, with the margin Δ and the dual β below it."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from bank.round import RoundStep

SIZE_INCHES = (7.0, 5.5)
DOTS_PER_INCH = 120


def plot_round(steps: Sequence[RoundStep], title: str, margin: float) -> bytes:
    """A PNG of the measured steps, one point per step. `margin` is m of LOPD eq. 13."""
    buffer = BytesIO()
    FigureCanvasAgg(figure_of(steps, title, margin)).print_figure(buffer, format="png", dpi=DOTS_PER_INCH)
    return buffer.getvalue()


def figure_of(steps: Sequence[RoundStep], title: str, margin: float) -> Figure:
    """The picture before it is rendered."""
    figure = Figure(figsize=SIZE_INCHES, layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True)
    rollouts = [step.rollouts for step in steps]
    _line(upper, rollouts, _values(steps, "reward"), "mean reward of the step's rollouts")
    _line(upper, rollouts, _values(steps, "success"), "success rate of the step's rollouts")
    upper.set(ylim=(0.0, 1.0), ylabel="train tasks, sampled", title=title)
    _line(lower, rollouts, _values(steps, "margin"), "Δ measured (nats per token)")
    lower.axhline(margin, linestyle=":", color="grey", label=f"m = {margin:g} demanded")
    lower.set(xlabel="rollouts used by this round", ylabel="Δ (nats per token)")
    right = lower.twinx()
    _line(right, rollouts, _values(steps, "beta"), "β (right axis)", color="tab:red")
    right.set(ylabel="β")
    upper.legend(loc="best", fontsize="small")
    handles = [*lower.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    lower.legend(handles=handles, loc="best", fontsize="small")
    return figure


def _line(axes: Axes, x: Sequence[int], y: Sequence[float], label: str, color: str | None = None) -> None:
    axes.plot(x, y, marker=".", label=label, color=color)


def _values(steps: Sequence[RoundStep], name: str) -> list[float]:
    return [step.metrics.get(name, float("nan")) for step in steps]
