"""A comparison with the shipped base, small enough for a test: killed, resumed, reported."""

import json
from dataclasses import replace

import pytest

from agents.model_folder import model_folder
from bank.embedding.hashing import HashingEmbedder
from bank.message import Message, Role, ToolCall
from trainer.compare.__main__ import main
from trainer.compare.arm import Place, result_of
from trainer.compare.behaviour import behaviour
from trainer.compare.evidence import teacher
from trainer.compare.plan import SIZES, Arm, run_of
from trainer.round_config import TINY_ROUND


class Killed(Exception):
    pass


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("compare")


def test_the_command_leaves_json_table_and_pictures_and_goes_on_from_them(folder):
    arguments = [
        "--size",
        "smoke",
        "--methods",
        "grpo,vanilla",
        "--seeds",
        "1",
        "--embedder",
        "hashing",
        "--out",
        str(folder),
    ]
    assert main(arguments) == 0
    content = json.loads((folder / "compare.json").read_text())
    assert [arm["label"] for arm in content["arms"]] == ["grpo", "vanilla"]
    assert [point["rollouts"] for point in content["arms"][0]["reward"]] == [0, 32, 64]
    vanilla = content["arms"][1]
    assert len({point["mean"] for point in vanilla["reward"]}) == 1
    assert content["tuning"][0]["seed"] == 1000
    assert {"compare.json", "table.md", "reward.png", "success.png", "inside.png"} <= {p.name for p in folder.iterdir()}
    made = {path: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()}
    assert main(arguments) == 0
    assert {path: path.stat().st_mtime_ns for path in (folder / "runs").iterdir()} == made
    assert json.loads((folder / "compare.json").read_text()) == content


def test_a_killed_run_ends_as_it_would_have(folder):
    place = Place(folder, model_folder("tiny"), HashingEmbedder())
    run = run_of(Arm("grpo", "grpo"), "order_desk", 0, SIZES["smoke"], "final", TINY_ROUND, 2.0)

    def kill(line):
        if "1/2 steps" in line:
            raise Killed

    with pytest.raises(Killed):
        result_of(place, run, kill)
    told = []
    resumed = result_of(place, run, told.append)
    assert not any("0/2" in line for line in told)
    (folder / "runs" / f"{run.key}.json").unlink()
    assert result_of(place, run, told.append)["curve"] == resumed["curve"]
    assert not (folder / "states" / f"{run.key}.pt").exists()


def test_wrong_names_are_refused_at_once(folder, capsys):
    assert main(["--methods", "ppo", "--out", str(folder)]) == 2
    assert main(["--suite", "nowhere", "--out", str(folder)]) == 2
    assert "unknown" in capsys.readouterr().err


def test_behaviour_counts_calls_and_repeats(samples):
    episode = samples(1)[0].episode
    call = ToolCall("c", "look", "{}")
    turns = tuple(
        replace(episode.turns[0], reply=Message(Role.ASSISTANT, "", calls)) for calls in ((call, call), (call,), ())
    )
    found = behaviour([replace(episode, turns=turns, reward=0.75)])
    assert found == {"steps": 3, "calls_per_step": 1, "repeats": pytest.approx(2 / 3), "reward_per_call": 0.25}


def test_a_run_of_lopd_shows_its_teacher_on_the_same_tasks_at_every_look(folder):
    place = Place(folder, model_folder("tiny"), HashingEmbedder())
    size = replace(SIZES["smoke"], steps=1, bank_rollouts=400)
    found = result_of(
        place, run_of(Arm("lopd", "lopd"), "order_desk", 0, size, "final", TINY_ROUND, 1.0), lambda _: None
    )
    assert found["error"] is None
    curves = teacher([found])
    assert (
        [point["rollouts"] for point in curves["reward"]] == [point["rollouts"] for point in found["curve"]] == [0, 32]
    )
    assert all(0 <= point["mean"] <= 1 for points in curves.values() for point in points)
    assert {"margin", "beta", "kl"} <= found["steps"][0].keys()
