from __future__ import annotations

import asyncio

import pytest

from agents.engine import EngineFault
from agents.scripted import ScriptedEngine
from agents.worlds.order_desk.suite import OrderDeskSuite
from bank.episode import Split
from trainer.rollouts import RolloutsFailed, Version, draw_tasks, play, roll_out
from trainer.round_config import TINY_ROUND, read_config

SUITE = OrderDeskSuite(0)
VERSION = Version("rd-step-0000", "d" * 64)
SMALL = read_config(TINY_ROUND, {"tasks_per_step": 5, "parallel": 2})


async def roll(engine, config=SMALL, step=0):
    return await roll_out(engine, SUITE, VERSION, config, round_id="rd", step=step)


def scripted(answer):
    return ScriptedEngine(answer, {VERSION.name: VERSION.digest})


def test_only_train_tasks_are_ever_drawn():
    config = read_config(TINY_ROUND, {"tasks_per_step": 64})
    drawn = {task.id for step in range(20) for task in draw_tasks(SUITE, config, step)}
    held_out = {task.id for task in SUITE.tasks(Split.HELD_OUT)}
    assert drawn == {task.id for task in SUITE.tasks(Split.TRAIN)}
    assert not drawn & held_out


def test_no_task_repeats_before_all_had_their_turn():
    config = read_config(TINY_ROUND, {"tasks_per_step": 48})
    drawn = [task.id for step in range(10) for task in draw_tasks(SUITE, config, step)]
    assert len(drawn) == len(set(drawn)) == len(SUITE.tasks(Split.TRAIN))


def test_the_draw_depends_on_seed_and_step_alone():
    assert draw_tasks(SUITE, SMALL, 3) == draw_tasks(SUITE, SMALL, 3)
    assert draw_tasks(SUITE, SMALL, 3) != draw_tasks(SUITE, SMALL, 4)
    assert draw_tasks(SUITE, SMALL, 3) != draw_tasks(SUITE, read_config(SMALL, {"seed": 1}), 3)


async def test_every_episode_names_the_version_that_made_it():
    batch = await roll(scripted(["done"]))
    assert [episode.task_id for episode in batch.episodes] == [task.id for task in draw_tasks(SUITE, SMALL, 0)]
    assert {(episode.policy, episode.digest) for episode in batch.episodes} == {(VERSION.name, VERSION.digest)}
    assert len({episode.id for episode in batch.episodes}) == 5


async def test_sibling_rollouts_have_their_own_seeds_and_a_repeat_has_the_same():
    first, second = scripted(["done"]), scripted(["done"])
    config = read_config(SMALL, {"rollouts_per_task": 2})
    await roll(first, config)
    await roll(second, config)
    seeds = [request.sampling.seed for request in first.requests]
    assert len(set(seeds)) == 10
    assert sorted(seeds) == sorted(request.sampling.seed for request in second.requests)


async def test_faults_are_dropped_and_counted():
    failing = draw_tasks(SUITE, SMALL, 0)[1].text

    def answer(request):
        if request.messages[-1].content == failing:
            raise EngineFault("no answer")
        return "done"

    batch = await roll(scripted(answer))
    assert (len(batch.episodes), batch.faults) == (4, 1)


async def test_a_step_without_any_rollout_stops_the_round():
    def answer(_):
        raise EngineFault("the engine is down")

    with pytest.raises(RolloutsFailed, match="the engine is down"):
        await roll(scripted(answer))


async def test_no_more_episodes_in_flight_than_allowed():
    flying, most = 0, 0

    async def answer(_):
        nonlocal flying, most
        flying += 1
        most = max(most, flying)
        await asyncio.sleep(0.01)
        flying -= 1
        return "done"

    await roll(scripted(answer))
    assert most == 2


async def test_nothing_to_play_is_no_episode():
    assert await play(scripted(["done"]), SUITE, [], 2) == ()
