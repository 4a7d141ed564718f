from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from sqlalchemy import text

from agents.adapter import WEIGHTS, AdapterRef, file_digest, read_manifest
from agents.engine import Sampling
from agents.limits import Limits
from agents.loop import Run, run_episode
from agents.transformers_engine.backbone import load_backbone
from agents.transformers_engine.engine import TransformersEngine
from bank.checkpoint import CheckpointStatus
from bank.embedding.hashing import HashingEmbedder
from bank.episode import Split
from bank.gate_report import Verdict
from bank.ids import new_id
from bank.index.memory import MemoryIndex
from bank.ledger.errors import HeldOutRefused
from bank.round import RoundStatus
from trainer.lease import utc_now
from trainer.rollouts import RolloutsFailed
from trainer.round import run_round
from trainer.round_config import ConfigRefused

BROKEN = 1e38
"""A learning rate after which no weight is of any use."""


def run(shop):
    while not shop.stopping():
        with shop.ledger.write() as books:
            claimed = books.rounds.claim(utc_now(), shop.settings.lease_seconds, shop.settings.max_attempts)
        if claimed is None:
            return
        run_round(shop, claimed)


def scores(shop, ref, probe):
    """What a serving engine makes of the probe after loading the folder."""

    async def load_and_score():
        engine = TransformersEngine(load_backbone(shop.model))
        await engine.load(ref)
        found = await engine.score(ref.name, probe.prompt_ids, probe.sampled_ids)
        await engine.close()
        return tuple(found)

    return asyncio.run(load_and_score())


def after(calls, act=lambda: None, answer=True):
    """A `stopping` that acts, and answers so, from a certain call on."""
    count = 0

    def stopping():
        nonlocal count
        count += 1
        if count < calls:
            return False
        act()
        return answer

    return stopping


def test_a_round_ends_with_one_judged_candidate(open_shop, fill_bank, queue_round, look):
    shop = open_shop()
    fill_bank(shop.ledger)
    queued = queue_round(shop.ledger)
    run(shop)
    row, steps, checkpoint = look(shop.ledger, queued.id)
    assert (row.status, row.candidate, row.parent) == (RoundStatus.COMPLETED, checkpoint.name, "base")
    assert [(step.step, step.rollouts) for step in steps] == [(1, 4), (2, 8), (3, 12)]
    wanted = {"reward", "success", "kl", "margin", "beta", "grad_norm_student", "tokens_per_second", "eta_seconds"}
    assert wanted <= steps[-1].metrics.keys()
    assert checkpoint.status is CheckpointStatus.CANDIDATE
    assert (checkpoint.gate.verdict, checkpoint.gate.tasks) == (Verdict.UNDECIDED, 6)
    assert checkpoint.lineage["experiences"] == row.snapshot["ids"]
    assert checkpoint.lineage["rollouts"] == 12


def test_the_candidate_is_a_verified_folder_with_a_probe(open_shop, fill_bank, queue_round, look):
    shop = open_shop()
    fill_bank(shop.ledger)
    queued = queue_round(shop.ledger)
    shop.folder(queued.id).mkdir(parents=True)
    other_weights = {"digest": "0" * 64, "report": {}}
    (shop.folder(queued.id) / "gate.json").write_text(json.dumps(other_weights))
    run(shop)
    _, _, checkpoint = look(shop.ledger, queued.id)
    ref = AdapterRef(checkpoint.name, checkpoint.digest, Path(checkpoint.path))
    manifest = read_manifest(ref)
    assert scores(shop, ref, manifest.probe) == pytest.approx(manifest.probe.logprobs, abs=1e-4)
    assert [path.name for path in shop.adapters.iterdir()] == [checkpoint.name]
    assert len(manifest.probe.sampled_ids) == len(manifest.probe.logprobs) == len(manifest.probe.base_logprobs) > 0
    assert manifest.probe.logprobs != manifest.probe.base_logprobs
    assert str(shop.model) not in (Path(checkpoint.path) / "adapter_config.json").read_text()
    assert {path.name for path in shop.folder(queued.id).iterdir()} == {"gate.json", "round.png"}
    assert (shop.folder(queued.id) / "round.png").read_bytes().startswith(b"\x89PNG")


def test_a_stopped_round_goes_on_as_if_nothing_had_happened(open_shop, fill_bank, queue_round, look, tmp_path):
    bank = MemoryIndex(HashingEmbedder().dimension)
    whole = open_shop(index=bank)
    fill_bank(whole.ledger)
    first = queue_round(whole.ledger)
    run(whole)
    broken = open_shop(stopping=after(4), index=bank, data=tmp_path / "data")
    whole.composer.unlink()
    second = queue_round(broken.ledger)
    run(broken)
    row, steps, _ = look(whole.ledger, second.id)
    assert (row.status, len(steps)) == (RoundStatus.RUNNING, 1)
    run(open_shop(index=bank))
    _, _, once = look(whole.ledger, first.id)
    row, steps, resumed = look(whole.ledger, second.id)
    assert (row.status, row.attempts, len(steps)) == (RoundStatus.COMPLETED, 1, 3)
    assert file_digest(Path(resumed.path) / WEIGHTS) == file_digest(Path(once.path) / WEIGHTS)
    assert resumed.gate == once.gate


def test_the_next_round_goes_on_from_the_incumbent_and_its_composer(open_shop, fill_bank, queue_round, look):
    shop = open_shop()
    fill_bank(shop.ledger)
    first = queue_round(shop.ledger)
    run(shop)
    _, _, incumbent = look(shop.ledger, first.id)
    with shop.ledger.write() as books:
        books.deployments.flip(0, incumbent.name, "test", "promoted", incumbent.created_at)
    second = queue_round(shop.ledger, {"steps": 0, "cold_start": {"learning_rate": BROKEN}})
    run(shop)
    row, _, candidate = look(shop.ledger, second.id)
    assert (row.status, row.parent) == (RoundStatus.COMPLETED, incumbent.name)
    assert file_digest(Path(candidate.path) / WEIGHTS) == file_digest(Path(incumbent.path) / WEIGHTS)
    assert (candidate.gate.wins, candidate.gate.losses) == (0, 0)


def test_a_cancelled_round_ends_without_a_candidate(open_shop, fill_bank, queue_round, look):
    queued = []

    def cancel():
        with shop.ledger.write() as books:
            books.rounds.request_cancel(queued[0].id)

    shop = open_shop(stopping=after(4, cancel, answer=False))
    fill_bank(shop.ledger)
    queued.append(queue_round(shop.ledger))
    run(shop)
    row, steps, checkpoint = look(shop.ledger, queued[0].id)
    assert (row.status, checkpoint, len(steps)) == (RoundStatus.CANCELLED, None, 1)
    assert not shop.adapters.exists()


@pytest.mark.parametrize("tasks", [0, 5])
def test_a_bank_that_is_too_small_ends_the_round_as_empty(open_shop, fill_bank, queue_round, look, tasks):
    shop = open_shop()
    fill_bank(shop.ledger, tasks)
    queued = queue_round(shop.ledger)
    run(shop)
    row, steps, checkpoint = look(shop.ledger, queued.id)
    assert (row.status, steps, checkpoint) == (RoundStatus.EMPTY, (), None)


def test_a_round_that_is_not_finite_leaves_a_rejected_candidate(open_shop, fill_bank, queue_round, look):
    shop = open_shop()
    fill_bank(shop.ledger)
    queued = queue_round(shop.ledger, {"lopd": {"composer_learning_rate": BROKEN}})
    run(shop)
    row, steps, checkpoint = look(shop.ledger, queued.id)
    assert (row.status, len(steps)) == (RoundStatus.FAILED, 1)
    assert row.error.startswith("NonFinite")
    assert (checkpoint.status, checkpoint.gate) == (CheckpointStatus.REJECTED, None)
    assert checkpoint.reason == row.error
    assert not shop.composer.exists()


def test_a_student_without_finite_weights_has_no_candidate(open_shop, fill_bank, queue_round, look):
    shop = open_shop()
    fill_bank(shop.ledger)
    queued = queue_round(shop.ledger, {"lopd": {"student": {"learning_rate": BROKEN}}})
    with pytest.raises(RolloutsFailed, match="not finite"):
        run(shop)
    row, _, checkpoint = look(shop.ledger, queued.id)
    assert (row.status, checkpoint) == (RoundStatus.FAILED, None)


def test_an_unknown_setting_fails_the_round_and_is_named(open_shop, queue_round, look):
    shop = open_shop()
    queued = queue_round(shop.ledger, {"stepz": 1})
    with pytest.raises(ConfigRefused):
        run(shop)
    row, _, _ = look(shop.ledger, queued.id)
    assert row.status is RoundStatus.FAILED
    assert "stepz" in row.error


def test_an_evaluation_task_in_the_bank_stops_the_round(open_shop, fill_bank, queue_round, look):
    shop = open_shop()
    fill_bank(shop.ledger)
    with shop.ledger.read() as books:
        episode = books.episodes.latest(1)[0]
    smuggle(shop.ledger, episode.id)
    queued = queue_round(shop.ledger)
    with pytest.raises(HeldOutRefused):
        run(shop)
    row, _, checkpoint = look(shop.ledger, queued.id)
    assert (row.status, checkpoint) == (RoundStatus.FAILED, None)


def smuggle(ledger, episode_id):
    """Turn a remembered train episode into a held-out one behind the ledger's back."""
    with ledger._writer.begin() as connection:
        connection.execute(text("update episodes set split = 'held_out' where id = :id"), {"id": episode_id})


@pytest.mark.parametrize("method", ["grpo", "sdft", "skill_sd", "vanilla"])
def test_a_round_learns_by_any_method_and_says_so(open_shop, fill_bank, queue_round, look, method):
    shop = open_shop()
    fill_bank(shop.ledger)
    settings = {"student": {"rank": 4, "alpha": 8.0}}
    grouped = {"tasks_per_step": 2, "rollouts_per_task": 2}
    queued = queue_round(shop.ledger, {"method": method, method: settings, "steps": 2, **grouped})
    run(shop)
    row, steps, checkpoint = look(shop.ledger, queued.id)
    assert (row.status, len(steps)) == (RoundStatus.COMPLETED, 2), row.error
    assert checkpoint.lineage["method"] == method
    assert checkpoint.lineage["trajectories"] == {"source": "suite", "logged": []}
    ref = AdapterRef(checkpoint.name, checkpoint.digest, Path(checkpoint.path))
    assert read_manifest(ref).method == method
    assert not shop.composer.exists()


def test_a_method_without_references_needs_no_bank(open_shop, queue_round, look):
    shop = open_shop()
    queued = queue_round(shop.ledger, {"method": "vanilla", "vanilla": {"student": {"rank": 4, "alpha": 8.0}}})
    run(shop)
    assert look(shop.ledger, queued.id)[0].status is RoundStatus.COMPLETED


@pytest.mark.parametrize("source", ["logged", "mix"])
def test_a_round_learns_from_what_the_incumbent_served_without_running_it_again(
    open_shop, fill_bank, queue_round, look, source
):
    shop = open_shop()
    fill_bank(shop.ledger)
    served = _serve(shop)
    queued = queue_round(shop.ledger, {"trajectories": {"source": source, "ratio_bound": 1.5}, "steps": 2})
    run(shop)
    row, steps, checkpoint = look(shop.ledger, queued.id)
    assert row.status is RoundStatus.COMPLETED, row.error
    assert sorted(checkpoint.lineage["trajectories"]["logged"]) == sorted(served)
    assert checkpoint.lineage["trajectories"]["source"] == source
    fresh = {"logged": 0, "mix": 8}[source]
    assert checkpoint.lineage["rollouts"] == fresh
    # the incumbent itself recorded them: its first step finds ratios of one
    assert steps[0].metrics["logged"] == {"logged": 4, "mix": 2}[source]
    assert steps[0].metrics["logged_log_ratio"] < 1e-3
    assert steps[1].metrics["logged_log_ratio"] > 1e-3


def test_nothing_served_is_nothing_to_learn_from(open_shop, fill_bank, queue_round, look):
    shop = open_shop()
    fill_bank(shop.ledger)
    queued = queue_round(shop.ledger, {"trajectories": {"source": "logged"}})
    run(shop)
    assert look(shop.ledger, queued.id)[0].status is RoundStatus.EMPTY


def _serve(shop, tasks=4):
    """Episodes of the base itself, with its real digest; their ids."""

    async def play():
        backbone = load_backbone(shop.model)
        engine = TransformersEngine(backbone)
        episodes = []
        for index, task in enumerate(shop.environment.tasks(Split.TRAIN)[20 : 20 + tasks]):
            limits, sampling = Limits(steps=1), Sampling(max_tokens=6, seed=index)
            made = Run(new_id("ep"), task, "base", backbone.base_digest, limits, sampling)
            episodes.append(await run_episode(engine, shop.environment.reset(task), made))
        await engine.close()
        return episodes

    episodes = asyncio.run(play())
    with shop.ledger.write() as books:
        for episode in episodes:
            books.episodes.add(episode)
    return [episode.id for episode in episodes]
