"""From curves of several seeds to claims with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

Result = Mapping[str, Any]
CONFIDENCE = 0.95


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Mean and its Student-t interval over seeds; the interval of a single value is unknown (NaN)."""
    mean = float(np.mean(values))
    if len(values) < 2:  # noqa: PLR2004 - a spread needs two
        return mean, math.nan, math.nan
    half = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(values) - 1) * stats.sem(values))
    return mean, mean - half, mean + half


def curve_of(results: Sequence[Result], name: str) -> list[dict[str, float]]:
    """Points that all seeds reached: rollouts, mean, low, high of a held-out figure."""
    at: dict[int, list[float]] = {}
    for result in results:
        for point in result["curve"]:
            at.setdefault(point["rollouts"], []).append(point[name])
    points = []
    for rollouts, values in sorted(at.items()):
        if len(values) == len(results):
            mean, low, high = interval(values)
            points.append({"rollouts": float(rollouts), "mean": mean, "low": low, "high": high})
    return points


def rollouts_to(curve: Sequence[Mapping[str, float]], target: float) -> float | None:
    """Rollouts at which the mean curve first reaches the target, on straight lines between its points; None if never."""
    before = None
    for point in curve:
        if point["mean"] >= target:
            if before is None:
                return point["rollouts"]
            share = (target - before["mean"]) / (point["mean"] - before["mean"])
            return before["rollouts"] + share * (point["rollouts"] - before["rollouts"])
        before = point
    return None


def summary(results: Sequence[Result]) -> dict[str, Any]:
    """One arm over its seeds."""
    last = [result["curve"][-1] for result in results if result["curve"]]
    figures = {}
    for name in sorted(last[0].keys() - {"rollouts"}) if last else ():
        mean, low, high = interval([point[name] for point in last])
        figures[name] = {"mean": mean, "low": low, "high": high}
    return {
        "label": results[0]["label"],
        "method": results[0]["method"],
        "note": results[0]["note"],
        "seeds": [result["seed"] for result in results],
        "learning_rate": results[0]["learning_rate"],
        "bank_rollouts": float(np.mean([result["bank"]["rollouts"] for result in results])),
        "experiences": float(np.mean([result["bank"]["experiences"] for result in results])),
        "rollouts": float(np.mean([point["rollouts"] for point in last])) if last else 0.0,
        "seconds": float(np.mean([result["seconds"] for result in results])),
        "final": figures,
        "final_rewards": [point["reward"] for point in last],
        "teacher": teacher(results),
        "reward": curve_of(results, "reward"),
        "success": curve_of(results, "success"),
        "learning": learning(results),
        "errors": [result["error"] for result in results if result["error"]],
    }


def teacher(results: Sequence[Result]) -> dict[str, list[dict[str, float]]]:
    """Held-out curves of the teacher with latents; empty for methods without."""
    if not all(result["curve"] and "teacher_reward" in result["curve"][-1] for result in results):
        return {}
    return {name: curve_of(results, f"teacher_{name}") for name in ("reward", "success")}


def learning(results: Sequence[Result]) -> dict[str, list[float]]:
    """Means over seeds of what the steps reported (Δ, β, KL, gradient norms ...), step by step."""
    longest = min((len(result["steps"]) for result in results), default=0)
    names = {name for result in results for step in result["steps"] for name in step} - {"rollouts"}
    found = {}
    for name in sorted(names):
        rows = [[step.get(name, math.nan) for step in result["steps"][:longest]] for result in results]
        column = np.array(rows, dtype=float)
        if column.size and not np.isnan(column).any():
            found[name] = column.mean(axis=0).tolist()
    return found


def targets(arms: Sequence[Mapping[str, Any]], against: Sequence[str] = ("grpo", "skill_sd")) -> dict[str, Any]:
    """How many rollouts every arm needs to reach the final mean reward of some, with and without those of its bank.

    An arm that retrieves nothing never used the bank's rollouts; both counts are then the same.
    """
    by_label = {arm["label"]: arm for arm in arms}
    found: dict[str, Any] = {}
    for name in against:
        reward = by_label.get(name, {"final": {}})["final"].get("reward")
        if reward is None:
            continue
        spent = by_label[name]["rollouts"]
        found[name] = {"final_reward": reward["mean"], "rollouts": spent, "arms": {}}
        for arm in arms:
            needed = rollouts_to(arm["reward"], reward["mean"])
            with_bank = None if needed is None else needed + (arm["bank_rollouts"] if arm["uses_bank"] else 0.0)
            share = None if needed is None or not spent else needed / spent
            found[name]["arms"][arm["label"]] = {
                "rollouts": needed,
                "with_bank": with_bank,
                "share": share,
                "ahead": ahead(arm, by_label[name]),
            }
    return found


def ahead(arm: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, float] | None:
    """By how much an arm's final reward is above another's, seed by seed; None where their seeds differ."""
    if arm["seeds"] != other["seeds"] or not len(arm["final_rewards"]) == len(other["final_rewards"]) == len(
        arm["seeds"]
    ):
        return None
    mean, low, high = interval(np.subtract(arm["final_rewards"], other["final_rewards"]).tolist())
    return {"mean": mean, "low": low, "high": high}
