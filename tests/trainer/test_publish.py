from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace

import pytest

from agents.adapter import CONFIG, MANIFEST, WEIGHTS, AdapterRefused, Probe, read_manifest
from trainer.publish import Candidate, Lineage, publish

PROBE = Probe(task_id="s/train/0000", prompt_ids=(1, 2), sampled_ids=(3,), logprobs=(-0.5,), base_logprobs=(-2.0,))
CANDIDATE = Candidate(
    lineage=Lineage("rd_1", "base", "b" * 64, "t" * 64, "lopd", 0),
    weights=b"\x00\x01" * 300,
    adapter_config={"r": 4, "lora_alpha": 8.0, "target_modules": ["v_proj", "q_proj"]},
    probe=PROBE,
)
WATCHED = {"open", "os.mkdir", "os.chmod", "os.rename", "os.rmdir", "os.remove"}
KILLED = 9


def dies_at(root, event):
    """Publish in a child that is gone, as after kill -9, at the n-th filesystem event under `root`."""
    child = os.fork()
    if child == 0:
        seen = 0

        def hook(name, arguments):
            nonlocal seen
            if name in WATCHED and str(arguments[0]).startswith(str(root)):
                seen += 1
                if seen > event:
                    os._exit(KILLED)

        sys.addaudithook(hook)
        publish(root, CANDIDATE)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == KILLED


def test_manifest_describes_the_folder(tmp_path):
    ref = publish(tmp_path, CANDIDATE)
    manifest = read_manifest(ref)
    assert ref.name == f"student-rd_1-{ref.digest[:12]}"
    assert set(manifest.files) == {CONFIG, WEIGHTS}
    assert (ref.path / WEIGHTS).read_bytes() == CANDIDATE.weights
    assert (manifest.rank, manifest.alpha, manifest.target_modules) == (4, 8.0, ("q_proj", "v_proj"))
    assert manifest.probe == PROBE


def test_folder_is_read_only(tmp_path):
    ref = publish(tmp_path, CANDIDATE)
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (ref.path, *sorted(ref.path.iterdir()))]
    assert modes == [0o555, 0o444, 0o444, 0o444]


def test_publishing_again_changes_nothing(tmp_path):
    first = publish(tmp_path, CANDIDATE)
    changed = (first.path / MANIFEST).stat().st_mtime_ns
    assert publish(tmp_path, CANDIDATE) == first
    assert (first.path / MANIFEST).stat().st_mtime_ns == changed
    assert [path.name for path in tmp_path.iterdir()] == [first.name]


def test_other_weights_get_another_name(tmp_path):
    names = {publish(tmp_path, replace(CANDIDATE, weights=bytes([n]) * 50)).name for n in range(3)}
    assert len(names) == 3


def test_changed_folder_is_never_published_over(tmp_path):
    ref = publish(tmp_path, CANDIDATE)
    (ref.path / WEIGHTS).chmod(0o644)
    (ref.path / WEIGHTS).write_bytes(b"\x01" + CANDIDATE.weights[1:])
    with pytest.raises(AdapterRefused, match=WEIGHTS):
        publish(tmp_path, CANDIDATE)


def test_killed_anywhere_leaves_a_whole_folder_or_none(tmp_path):
    event = 0
    while dies_at(root := tmp_path / f"{event}", event):
        finished = [path for path in root.iterdir() if not path.name.startswith(".")] if root.exists() else []
        ref = publish(root, CANDIDATE)
        assert finished in ([], [ref.path])
        assert [path.name for path in root.iterdir()] == [ref.name]
        read_manifest(ref)
        event += 1
    assert event >= 10


def test_another_rounds_unfinished_folder_is_left_alone(tmp_path):
    other = tmp_path / ".rd_2-unfinished-abc"
    other.mkdir()
    mine = tmp_path / ".rd_1-unfinished-abc"
    mine.mkdir()
    publish(tmp_path, CANDIDATE)
    assert other.exists()
    assert not mine.exists()
