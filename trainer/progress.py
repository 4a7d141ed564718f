"""Progress: what a step measured, how long the rest will take, and a console that shows it."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

from bank.episode import Episode
from bank.gate_report import GateReport

SHOWN = ("reward", "success", "kl", "margin", "beta", "tokens_per_second")


def rollout_metrics(episodes: Sequence[Episode], faults: int, threshold: float) -> dict[str, float]:
    """Mean reward, success rate and counts of one step's trajectories; rates need at least one."""
    rewards = [episode.reward for episode in episodes if episode.reward is not None]
    rates = (
        {
            "reward": sum(rewards) / len(rewards),
            "success": sum(reward >= threshold for reward in rewards) / len(rewards),
        }
        if rewards
        else {}
    )
    return rates | {
        "faults": float(faults),
        "sampled_tokens": float(sum(len(turn.sampled_ids) for episode in episodes for turn in episode.turns)),
    }


class Pace:
    """Speed of the steps this process has made."""

    def __init__(self, steps: int) -> None:
        self._steps = steps
        self._began = self._last = time.monotonic()
        self._made = 0

    def tick(self, done: int, sampled_tokens: float) -> dict[str, float]:
        """After step `done` of all: its seconds, sampled tokens per second of it, seconds to the last step."""
        now = time.monotonic()
        seconds, self._last = now - self._last, now
        self._made += 1
        eta = (now - self._began) / self._made * (self._steps - done)
        speed = sampled_tokens / seconds if seconds > 0 else 0.0
        return {"seconds": seconds, "tokens_per_second": speed, "eta_seconds": eta}


class Reporter:
    """Live bars on a terminal, one plain line per event elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._bar: Progress | None = None
        self._task: TaskID | None = None

    def phase(self, round_id: str, name: str, total: int | None = None) -> None:
        """A new phase begins; `total` is how many times `advance` will be called."""
        self.close()
        if not self._console.is_terminal:
            self._console.print(f"{round_id} {name}", highlight=False, soft_wrap=True)
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._bar = Progress(*columns, TextColumn("{task.fields[metrics]}"), console=self._console)
        self._bar.start()
        self._task = self._bar.add_task(f"{round_id} {name}", total=total, metrics="")

    def advance(self, done: int, metrics: Mapping[str, float]) -> None:
        """`done` units of the phase are complete."""
        text = _line(metrics)
        if self._bar is None or self._task is None:
            self._console.print(f"  {done} {text}", highlight=False, soft_wrap=True)
            return
        self._bar.update(self._task, completed=done, metrics=text)

    def verdict(self, report: GateReport) -> None:
        """The gate has spoken."""
        self.close()
        self._console.print(describe(report), highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Leave the terminal as it was found."""
        if self._bar is not None:
            self._bar.stop()
        self._bar = self._task = None


def describe(report: GateReport) -> str:
    """The report in one line."""
    return (
        f"gate: {report.verdict.value}; success {report.incumbent_success:.3f} -> {report.candidate_success:.3f}, "
        f"difference {report.difference:+.3f} [{report.low:+.3f}, {report.high:+.3f}] at {report.confidence:.0%}, "
        f"p {report.p_value:.2g} ({report.wins} won, {report.losses} lost of {report.tasks} tasks)"
        + "".join(f"; blocked: {reason}" for reason in report.blocked)
    )


def _line(metrics: Mapping[str, float]) -> str:
    shown = [name for name in SHOWN if name in metrics] or sorted(metrics)
    return " ".join(f"{name} {metrics[name]:.3g}" for name in shown)
