import json

import pytest

from agents.loop import Run, run_episode
from agents.scripted import ScriptedEngine
from agents.suites import open_suite
from agents.worlds.code.problems import FAMILIES
from agents.worlds.code.suite import CodeSuite
from bank.episode import Split, StopReason


def submitting(code):
    return f'<tool_call>\n{{"name": "submit", "arguments": {json.dumps({"code": code})}}}\n</tool_call>'


@pytest.fixture(scope="module")
def suite():
    return CodeSuite(0)


async def play(suite, task, *codes):
    engine = ScriptedEngine([*map(submitting, codes), "done"])
    return await run_episode(engine, suite.reset(task), Run("ep_1", task, "base", "0" * 64))


def test_seeds_give_other_tasks_and_the_splits_share_no_text(suite):
    assert open_suite("code:1").name == "code-1"
    texts = {split: {task.text for task in suite.tasks(split)} for split in (Split.TRAIN, Split.HELD_OUT)}
    assert not texts[Split.TRAIN] & texts[Split.HELD_OUT]
    assert texts[Split.TRAIN] != {task.text for task in CodeSuite(1).tasks(Split.TRAIN)}
    assert suite.task(suite.tasks(Split.TRAIN)[3].id) is suite.tasks(Split.TRAIN)[3]


@pytest.mark.parametrize("index", range(len(FAMILIES)))
async def test_the_solution_of_every_family_is_worth_one(suite, index):
    task = suite.tasks(Split.HELD_OUT)[index]
    ((_, arguments),) = suite.gold(task)
    episode = await play(suite, task, arguments["code"])
    assert (episode.reward, episode.stop_reason) == (1.0, StopReason.FINISHED)
    assert episode.turns[0].observations[0].content == "passed\npassed"


async def test_a_failed_example_is_told_and_the_last_submission_counts(suite):
    task = suite.tasks(Split.TRAIN)[0]
    ((_, gold),) = suite.gold(task)
    episode = await play(suite, task, "def solve(x):\n    return None", gold["code"])
    assert episode.turns[0].observations[0].content.startswith("error: solve(")
    assert "gave null" in episode.turns[0].observations[0].content
    assert episode.reward == 1.0
    assert (await play(suite, task, gold["code"], "def solve(x):\n    return None")).reward == 0.0


async def test_knowing_the_examples_by_heart_is_not_enough(suite):
    task = suite.tasks(Split.TRAIN)[0]
    known = {str(case["inputs"][0]): case["expected"] for case in task.payload["cases"][:2]}
    episode = await play(suite, task, f"def solve(x):\n    return {known!r}.get(str(x))")
    assert episode.turns[0].observations[0].content == "passed\npassed"
    assert episode.reward < 1.0


async def test_nothing_submitted_is_worth_nothing_and_a_users_request_has_no_verdict(suite):
    assert (await play(suite, suite.tasks(Split.TRAIN)[0])).reward == 0.0
    assert suite.live("sort my list").verify() is None
