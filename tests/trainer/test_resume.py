from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import torch

from trainer.resume import (
    STATE,
    Progress,
    ResumeRefused,
    forget_progress,
    load_composer,
    load_progress,
    save_composer,
    save_progress,
)


def progress(step):
    return Progress(step, 4 * step, "{}", {"student": {"a": torch.full((2,), float(step))}, "beta": 0.5})


def test_nothing_saved_is_nothing_to_resume(tmp_path):
    assert load_progress(tmp_path / "rd", "{}") is None


def test_the_latest_step_is_found_and_no_other_file(tmp_path):
    for step in (1, 2):
        save_progress(tmp_path / "rd", progress(step))
    found = load_progress(tmp_path / "rd", "{}")
    assert (found.step, found.rollouts, found.method["beta"]) == (2, 8, 0.5)
    assert torch.equal(found.method["student"]["a"], torch.tensor([2.0, 2.0]))
    assert [path.name for path in (tmp_path / "rd").iterdir()] == [STATE]


def test_a_torn_write_leaves_the_last_state(tmp_path):
    save_progress(tmp_path, progress(1))
    (tmp_path / f".{STATE}.unfinished").write_bytes(b"half")
    assert load_progress(tmp_path, "{}").step == 1
    save_progress(tmp_path, progress(2))
    assert load_progress(tmp_path, "{}").step == 2


def test_another_configuration_is_refused(tmp_path):
    save_progress(tmp_path, progress(1))
    with pytest.raises(ResumeRefused):
        load_progress(tmp_path, '{"steps": 9}')


class Planted:
    def __reduce__(self):
        return (Path.touch, (Path("planted"),))


def test_a_planted_file_runs_no_code(tmp_path):
    torch.save({"format": 1, "lopd": Planted()}, tmp_path / STATE)
    with pytest.raises(pickle.UnpicklingError):
        load_progress(tmp_path, "{}")


def test_a_composer_is_found_under_its_key_only(tmp_path):
    save_composer(tmp_path / "latest", "this base", {"w": torch.ones(1)})
    assert load_composer(tmp_path / "latest", "other base") is None
    assert torch.equal(load_composer(tmp_path / "latest", "this base")["w"], torch.ones(1))
    assert load_composer(tmp_path / "none", "this base") is None


def test_forgetting_twice_is_fine(tmp_path):
    save_progress(tmp_path, progress(1))
    forget_progress(tmp_path)
    forget_progress(tmp_path)
    assert load_progress(tmp_path, "{}") is None
