"""compare.json, the table and the pictures."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from trainer.compare.evidence import summary, targets
from trainer.compare.pictures import curves, inside
from trainer.compare.plan import Run, Size
from trainer.durable import replace_file


def write(folder: Path, finals: Sequence[tuple[Run, Mapping[str, Any]]], trials: Sequence[Any], size: Size) -> Path:
    """Everything that is known about these finished runs; returns the JSON's path."""
    labels = list(dict.fromkeys(run.arm.label for run, _ in finals))
    arms = []
    for label in labels:
        mine = [(run, result) for run, result in finals if run.arm.label == label]
        uses_bank = mine[0][0].config.references > 0 or mine[0][0].config.replays
        arms.append(summary([result for _, result in mine]) | {"uses_bank": uses_bank})
    content: dict[str, Any] = {
        "suite": finals[0][0].suite.split(":")[0],
        "suites": sorted({run.suite for run, _ in finals}),
        "size": asdict(size),
        "machine": machine(),
        "tuning": [dict(trial) for trial in trials],
        "targets": targets(arms),
        "arms": arms,
    }
    path = folder / "compare.json"
    _put(path, (json.dumps(content, indent=1) + "\n").encode())
    _put(folder / "table.md", table(content).encode())
    _put(folder / "reward.png", curves(arms, "reward", content["suite"]))
    _put(folder / "success.png", curves(arms, "success", content["suite"]))
    _put(folder / "inside.png", inside(arms))
    return path


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
    }


def table(content: Mapping[str, Any]) -> str:
    """The comparison in Markdown."""
    about = (
        f"Suite {content['suite']}, seeds {content['arms'][0]['seeds']}, {content['size']['held_out']} held-out tasks, "
        f"{content['machine']['cores']} cores. Mean [95 % interval over seeds] after the last step."
    )
    lines = [
        about,
        "",
        "| method | lr | reward | success | rollouts | bank | steps | calls/step | repeats | reward/call | s/run |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(arm) for arm in content["arms"]),
        "",
    ]
    for name, target in content["targets"].items():
        lines += [
            f"Rollouts to reach {name}'s final mean reward of {target['final_reward']:.3f} ({target['rollouts']:.0f} rollouts):",
            "",
            "| method | rollouts | share | with the bank's | final reward above it, paired by seed |",
            "|---|---|---|---|---|",
            *(_reach(label, found) for label, found in target["arms"].items()),
            "",
        ]
    lines += [
        f"{arm['label']}: the teacher with latents itself gets "
        + ", ".join(
            f"{name} {_spread(points[0])} before the first step and {_spread(points[-1])} after the last"
            for name, points in arm["teacher"].items()
        )
        + "."
        for arm in content["arms"]
        if arm["teacher"]
    ]
    notes = [f"\\* {arm['label']}: {arm['note']}." for arm in content["arms"] if arm["note"]]
    errors = [f"{arm['label']}: {error}" for arm in content["arms"] for error in arm["errors"]]
    return "\n".join([*lines, *notes, *errors]).rstrip() + "\n"


def _row(arm: Mapping[str, Any]) -> str:
    final, bank = arm["final"], f"{arm['bank_rollouts']:.0f}" if arm["uses_bank"] else "-"
    plain = [
        f"{final[name]['mean']:.2f}" for name in ("steps", "calls_per_step", "repeats", "reward_per_call") if final
    ]
    cells = [
        f"{arm['label']}{'*' if arm['note'] else ''}",
        f"{arm['learning_rate']:.2g}",
        *(_spread(final[name]) for name in ("reward", "success") if final),
        f"{arm['rollouts']:.0f}",
        bank,
        *plain,
        f"{arm['seconds']:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def _spread(found: Mapping[str, float], form: str = ".3f") -> str:
    return f"{found['mean']:{form}} [{found['low']:{form}}, {found['high']:{form}}]"


def _reach(label: str, found: Mapping[str, Any]) -> str:
    above = "-" if found["ahead"] is None else _spread(found["ahead"], "+.3f")
    if found["rollouts"] is None:
        return f"| {label} | not reached | - | - | {above} |"
    share = "-" if found["share"] is None else f"{found['share']:.0%}"
    return f"| {label} | {found['rollouts']:.0f} | {share} | {found['with_bank']:.0f} | {above} |"


def _put(path: Path, content: bytes) -> None:
    replace_file(path, lambda temporary: temporary.write_bytes(content))
