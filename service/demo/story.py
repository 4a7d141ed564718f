"""The demo's story, act by act."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from agents.suites import open_suite
from bank.episode import Split
from service.client import Body, RatchetClient
from service.demo.closing import print_curls, print_files, print_result
from service.demo.crowd import bank_line, run_crowd
from service.demo.measure import compare, success_rate
from service.demo.report import DemoReport
from service.demo.server import Server, serving
from service.demo.traffic import Outcome, requests_over
from service.screen.gate_view import percent, print_gate
from service.screen.round_watch import watch_round

SUITE = "order_desk"
MEASURING_SEED = 900_001
"""Offset of the held-out requests' sampling seeds; the same before and after."""
INDEX_SECONDS = 90.0
SWAP_SECONDS = 60.0
POLL_SECONDS = 0.3


class DemoFailed(Exception):
    """An act did not end as it must."""


@dataclass(frozen=True, slots=True)
class Demo:
    """What to play."""

    seed: int
    data: Path | None
    """Empty folder to keep; None is a temporary one that is removed."""
    reports: Path
    traffic: int
    """Runs before the round."""
    keep: bool = False
    """Go on serving at the end until Ctrl-C."""

    @property
    def suite(self) -> str:
        """The house that is served."""
        return f"{SUITE}:{self.seed}"


@dataclass(frozen=True, slots=True)
class Stage:
    """What every act needs."""

    plan: Demo
    server: Server
    client: RatchetClient
    console: Console


def run_demo(plan: Demo, console: Console, on_report: Callable[[DemoReport], Path]) -> None:
    """Play it all; `on_report` stores the result before the service goes on or stops."""
    data = _fresh_folder(plan.data)
    try:
        started = time.monotonic()
        console.rule(f"Ratchet demo, seed {plan.seed}")
        console.print(f"starting the service on {data} ...")
        with serving(data, plan.suite) as server, RatchetClient(server.url, server.key) as client:
            _play(Stage(plan, server, client, console), started, on_report)
    finally:
        if plan.data is None:
            shutil.rmtree(data, ignore_errors=True)


def _play(stage: Stage, started: float, on_report: Callable[[DemoReport], Path]) -> None:
    pointer = stage.client.get("/v1/deployment")
    stage.console.print(f"serving {pointer['current']} at {stage.server.url}")
    before = _measure(stage, "held-out, before")
    bank, last_run = _fill_bank(stage)
    finished = _train(stage)
    gate = _judge(stage, finished)
    after = _measure(stage, "held-out, after")
    report = DemoReport(
        seed=stage.plan.seed,
        **_difference(before, after, stage.plan.seed),
        rollouts=finished["steps"][-1]["rollouts"],
        seconds=round(time.monotonic() - started, 1),
        verdict=gate["verdict"],
        checkpoint=after[0].checkpoint,
        digest=after[0].digest,
        traffic=stage.plan.traffic,
        experiences=bank["experiences"],
        held_out_tasks=len(after),
    )
    _close(stage, report, on_report(report), finished["id"], last_run)


def _measure(stage: Stage, title: str) -> list[Outcome]:
    """Every held-out task once, through the served agent. The bank must not notice."""
    tasks = open_suite(stage.plan.suite).tasks(Split.HELD_OUT)
    requests = requests_over(tasks, len(tasks), stage.plan.seed + MEASURING_SEED)
    known = stage.client.get("/v1/bank")["experiences"]
    outcomes = run_crowd(stage.server, requests, title, stage.console)
    versions = {outcome.checkpoint for outcome in outcomes}
    if len(versions) != 1:
        raise DemoFailed(f"one measurement, one version; but {sorted(versions)} answered")
    if stage.client.get("/v1/bank")["experiences"] != known:
        raise DemoFailed("held-out runs entered the bank")
    stage.console.print(f"{title}: {percent(success_rate(outcomes))} of {len(outcomes)} solved by {versions.pop()}")
    return outcomes


def _fill_bank(stage: Stage) -> tuple[Body, Outcome]:
    """Train tasks through the agent; verified successes become experiences. Returns the bank and the last run."""
    tasks = open_suite(stage.plan.suite).tasks(Split.TRAIN)
    requests = requests_over(tasks, stage.plan.traffic, stage.plan.seed)
    outcomes = run_crowd(stage.server, requests, "traffic", stage.console, show_bank=True)
    bank = _wait(
        lambda: stage.client.get("/v1/bank"),
        lambda bank: bank["indexed"] >= bank["experiences"],
        INDEX_SECONDS,
        "the relay to index every experience",
    )
    stage.console.print(bank_line(bank))
    return bank, outcomes[-1]


def _train(stage: Stage) -> Body:
    """One round, watched to its end."""
    created = stage.client.post("/v1/rounds", {"config": {"seed": stage.plan.seed}})
    finished = watch_round(stage.client, created["id"], stage.console)
    if finished["status"] != "completed" or not finished["candidate"]:
        raise DemoFailed(f"round {created['id']} ended {finished['status']}: {finished.get('error') or 'no candidate'}")
    return finished


def _judge(stage: Stage, finished: Body) -> Body:
    """Print the gate's report; where it says better, wait for the swap."""
    name = finished["candidate"]
    gate: Body | None = stage.client.get(f"/v1/checkpoints/{name}")["gate"]
    if gate is None:
        raise DemoFailed(f"{name} has no gate report")
    print_gate(stage.console, gate)
    if gate["verdict"] != "better":
        stage.console.print("the incumbent stays; the second measurement repeats the first")
        return gate
    pointer = _wait(
        lambda: stage.client.get("/v1/deployment"),
        lambda pointer: pointer["current"] == name,
        SWAP_SECONDS,
        f"{name} to be swapped in",
    )
    stage.console.print(f"swapped in without a restart: {name} (generation {pointer['generation']})")
    return gate


def _wait(look: Callable[[], Body], done: Callable[[Body], bool], seconds: float, what: str) -> Body:
    deadline = time.monotonic() + seconds
    while not done(body := look()):
        if time.monotonic() > deadline:
            raise DemoFailed(f"waited {seconds:.0f} s for {what}; last seen: {body}")
        time.sleep(POLL_SECONDS)
    return body


def _difference(before: list[Outcome], after: list[Outcome], seed: int) -> dict[str, Any]:
    found = compare(before, after, seed)
    return {"before": found.before, "after": found.after, "interval": (found.low, found.high)}


def _close(stage: Stage, report: DemoReport, written: Path, round_id: str, last_run: Outcome) -> None:
    """The result, the files, what to try; then go on serving if a person is there."""
    print_result(stage.console, report)
    print_files(stage.console, written, _copy_plot(stage, round_id))
    stage.console.print(f"\n{stage.server.url}", style="bold")
    print_curls(stage.console, stage.server, last_run.task_id, last_run.episode_id)
    if stage.plan.keep:
        stage.console.print("still serving; Ctrl-C ends it")
        with suppress(KeyboardInterrupt):
            stage.server.process.wait()


def _copy_plot(stage: Stage, round_id: str) -> Path | None:
    """The trainer's picture of the round, if it drew one."""
    drawn = stage.server.data / "rounds" / round_id / "round.png"
    if not drawn.is_file():
        return None
    stage.plan.reports.mkdir(parents=True, exist_ok=True)
    return Path(shutil.copy(drawn, stage.plan.reports / f"demo-{stage.plan.seed}.png"))


def _fresh_folder(chosen: Path | None) -> Path:
    if chosen is None:
        return Path(tempfile.mkdtemp(prefix="ratchet-demo-"))
    chosen.mkdir(parents=True, exist_ok=True)
    if any(chosen.iterdir()):
        raise DemoFailed(f"{chosen} is not empty; a demo starts from nothing")
    return chosen.absolute()
