"""Two processes over gloo give the single process's gradient, for LOPD and for a method with a text teacher."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from trainer.team import ALONE, Team

ROOT = Path(__file__).parents[2]


def start(rank, size, port, out, *more):
    environment = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "LOCAL_RANK": str(rank),
        "OMP_NUM_THREADS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    command = [sys.executable, "-m", "tests.trainer.team_member", str(out), *more]
    return subprocess.Popen(command, cwd=ROOT, env=environment)


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]


@pytest.fixture(scope="module")
def gradients(tmp_path_factory):
    """Name of the run to what it left."""
    folder, port = tmp_path_factory.mktemp("team"), free_port()
    members = [start(rank, 2, port, folder / f"two-{rank}.pt") for rank in range(2)]
    members.append(start(0, 1, free_port(), folder / "one.pt"))
    sharded_port = free_port()
    members += [start(rank, 2, sharded_port, folder / f"sharded-{rank}.pt", "sharded") for rank in range(2)]
    assert [member.wait(timeout=300) for member in members] == [0] * 5
    return {path.stem: torch.load(path, weights_only=True) for path in folder.glob("*.pt")}


@pytest.mark.parametrize("team", ["two", "sharded"])
@pytest.mark.parametrize("name", ["lopd", "sdpo", "grpo"])
def test_two_processes_reproduce_the_single_process(gradients, name, team):
    one, first, second = (gradients[run][name] for run in ("one", f"{team}-0", f"{team}-1"))
    assert first["parts"] + second["parts"] == one["parts"] > 2
    for run in (first, second):
        for expected, found in zip(one["gradients"], run["gradients"], strict=True):
            assert_close(found, expected, rtol=1e-4, atol=1e-7)
        assert run["figures"] == pytest.approx(one["figures"], rel=1e-4, abs=1e-6)


def test_alone_nothing_is_shared():
    assert list(ALONE.share([1, 2, 3])) == [1, 2, 3]
    assert ALONE.gather("x") == ["x"]
    assert ALONE.add_up_figures({"a": 1.0}) == {"a": 1.0}


def test_a_sharded_team_keeps_in_step():
    plain, spread = (Team(1, 2, sharded=sharded) for sharded in (False, True))
    assert plain.turns(["a", "b", "c"]) == [("b", 1.0)]
    assert spread.turns(["a", "b", "c"]) == [("b", 1.0), ("a", 0.0)]
    assert spread.turns(["a", "b"]) == [("b", 1.0)]
