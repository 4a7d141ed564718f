from __future__ import annotations

import pytest

from agents.engine import EngineFault
from agents.limits import Limits
from agents.scripted import ScriptedEngine
from agents.worlds.order_desk.suite import OrderDeskSuite
from bank.episode import Split
from trainer.gate.evaluate import Bench, GateFailed, evaluate, judge, kind_of
from trainer.rollouts import Version
from trainer.round_config import GateConfig

SUITE = OrderDeskSuite(0)
NEW, OLD = Version("new", "1" * 64), Version("old", "0" * 64)


def bench(answer, **config):
    engine = ScriptedEngine(answer, {version.name: version.digest for version in (NEW, OLD)})
    chosen = GateConfig(**{"tasks": 12, **config})
    return Bench(engine, SUITE, chosen, Limits(steps=3), threshold=1.0, parallel=4)


async def test_only_held_out_tasks_are_played():
    outcomes = await evaluate(bench(lambda _: "done"), NEW)
    assert {episode.split for episode in outcomes.episodes} == {Split.HELD_OUT}
    assert [episode.task_id for episode in outcomes.episodes] == [t.id for t in SUITE.tasks(Split.HELD_OUT)[:12]]


async def test_all_held_out_tasks_are_the_default():
    assert len(bench(lambda _: "done", tasks=None).tasks) == len(SUITE.tasks(Split.HELD_OUT))


async def test_both_policies_share_their_random_numbers():
    where = bench(lambda _: "done", samples_per_task=2)
    await judge(where, NEW, OLD)
    seeds = {name: [] for name in ("new", "old")}
    for request in where.engine.requests:
        seeds[request.version].append(request.sampling.seed)
    assert sorted(seeds["new"]) == sorted(seeds["old"])
    assert len(set(seeds["new"])) == 24


async def test_samples_are_grouped_by_task():
    outcomes = await evaluate(bench(lambda _: "done", samples_per_task=3), NEW)
    assert outcomes.rewards.shape == (12, 3)
    ids = [episode.task_id for episode in outcomes.episodes]
    assert ids[0] == ids[1] == ids[2] != ids[3]


async def test_a_candidates_fault_counts_against_it():
    def answer(request):
        if request.version == "new":
            raise EngineFault("away")
        return "done"

    report = await judge(bench(answer), NEW, OLD)
    assert (report.tasks, report.candidate_reward, report.candidate_success) == (12, 0.0, 0.0)


async def test_an_incumbents_fault_drops_the_pair():
    first = SUITE.tasks(Split.HELD_OUT)[0].text

    def answer(request):
        if request.version == "old" and request.messages[-1].content == first:
            raise EngineFault("away")
        return "done"

    same_text = sum(task.text == first for task in SUITE.tasks(Split.HELD_OUT)[:12])
    report = await judge(bench(answer), NEW, OLD)
    assert report.tasks == 12 - same_text


async def test_no_pair_is_no_verdict():
    def answer(request):
        if request.version == "old":
            raise EngineFault("away")
        return "done"

    with pytest.raises(GateFailed):
        await judge(bench(answer), NEW, OLD)


async def test_results_by_kind_cover_every_task():
    report = await judge(bench(lambda _: "done"), NEW, OLD)
    assert sum(part.tasks for part in report.segments) == report.tasks
    assert {part.name for part in report.segments} == {kind_of(t) for t in SUITE.tasks(Split.HELD_OUT)[:12]}
    assert not report.passed


async def test_a_guard_that_regresses_blocks_whatever_the_verdict():
    def answer(request):
        if request.version == "new":
            raise EngineFault("away")
        return "done"

    report = await judge(bench(answer, guards=("code:0",), guard_margin=0.0), NEW, OLD)
    (guard,) = report.guards
    assert (guard.name, guard.tasks) == ("code:0", 12)
    assert guard.regressed == (guard.difference < 0.0)
    assert [reason for reason in report.blocked if "guard" in reason] == ([] if not guard.regressed else report.blocked)


async def test_a_candidate_that_grew_far_longer_is_not_promoted_by_itself():
    def answer(request):
        return "word " * 200 if request.version == "new" else "done"

    report = await judge(bench(answer), NEW, OLD)
    old, new = report.behaviour["tokens"]
    assert new > 5 * old
    assert [reason for reason in report.blocked if "tokens" in reason]


def test_a_guard_that_does_not_exist_is_refused_by_name():
    with pytest.raises(ValueError, match="nowhere"):
        GateConfig(guards=("nowhere:1",))
