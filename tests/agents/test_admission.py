"""Admission: what is refused before any engine sees it."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from agents.adapter import CONFIG, MANIFEST, WEIGHTS, AdapterRef, AdapterRefused, file_digest
from agents.admission import admit, base_identity, claim
from agents.safetensors_header import read_header
from agents.transformers_engine.backbone import load_backbone
from tests.agents.tiny_rig import publish, seal, write_base

RANK = 8


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    return write_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def identity(base):
    return base_identity(base)


@pytest.fixture(scope="module")
def backbone(base):
    return load_backbone(base)


@pytest.fixture(scope="module")
def published(backbone, tmp_path_factory):
    return publish(backbone, tmp_path_factory.mktemp("published") / "student-rd", 1)


@pytest.fixture
def folder(published, tmp_path):
    """A copy that a test may spoil."""
    return Path(shutil.copytree(published.path, tmp_path / "student-rd"))


def refused(folder, identity, digest=None):
    ref = AdapterRef(folder.name, digest or file_digest(folder / MANIFEST), folder)
    with pytest.raises(AdapterRefused) as caught:
        admit(ref, identity, RANK)
    return str(caught.value)


def test_what_the_trainer_publishes_is_admitted(published, identity):
    assert admit(published, identity, RANK).rank == 4


@pytest.mark.parametrize("tenths", range(10))
def test_weights_cut_at_every_tenth_are_refused_though_the_manifest_was_made_for_them(
    backbone, folder, identity, tenths
):
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[: len(whole) * tenths // 10])
    assert "safetensors" in refused(seal(backbone, folder).path, identity)
    (folder / WEIGHTS).write_bytes(whole + b"\0")
    assert "its header describes" in refused(seal(backbone, folder).path, identity)


def test_one_flipped_bit_is_refused(published, folder, identity):
    data = bytearray((folder / WEIGHTS).read_bytes())
    data[-5] ^= 1
    (folder / WEIGHTS).write_bytes(data)
    assert "does not match" in refused(folder, identity, published.digest)


def test_a_pickle_is_refused_by_its_name_and_by_its_content(backbone, folder, identity):
    torch.save({"x": torch.zeros(2)}, folder / "adapter_model.bin")
    assert "expected exactly" in refused(folder, identity)
    (folder / "adapter_model.bin").replace(folder / WEIGHTS)
    assert "safetensors" in refused(seal(backbone, folder).path, identity)


def test_a_link_to_elsewhere_is_refused(folder, identity):
    (folder / WEIGHTS).rename(folder.parent / "weights")
    (folder / WEIGHTS).symlink_to(folder.parent / "weights")
    assert "no plain file" in refused(folder, identity)


def test_renamed_keys_are_refused(backbone, folder, identity):
    tensors = {f"base_model.model.language_model.{name[17:]}": w for name, w in load_file(folder / WEIGHTS).items()}
    save_file(tensors, folder / WEIGHTS)
    assert "missing weights" in refused(seal(backbone, folder).path, identity)


def test_another_base_another_template_and_too_much_rank_are_refused(backbone, published, folder, tmp_path, identity):
    other = base_identity(write_base(tmp_path / "other", seed=5))
    assert "made for base" in refused(published.path, other)
    assert "tokenizer and template" in refused(seal(backbone, folder, template_digest="1" * 64).path, identity)
    with pytest.raises(AdapterRefused, match=r"rank 4 is not in 1..2"):
        admit(published, identity, 2)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_is_admitted_and_its_infinities_are_not(backbone, folder, identity, kind):
    tensors = {name: weight.to(kind) for name, weight in load_file(folder / WEIGHTS).items()}
    save_file(tensors, folder / WEIGHTS)
    assert admit(seal(backbone, folder), identity, RANK)
    next(iter(tensors.values()))[0, 0] = torch.inf
    save_file(tensors, folder / WEIGHTS)
    assert "not finite" in refused(seal(backbone, folder).path, identity)


def test_whole_numbers_are_no_weights(backbone, folder, identity):
    save_file({name: weight.to(torch.int8) for name, weight in load_file(folder / WEIGHTS).items()}, folder / WEIGHTS)
    assert "I8" in refused(seal(backbone, folder).path, identity)


def test_a_manifest_that_leaves_a_file_out_is_refused(backbone, folder, identity):
    sealed = seal(backbone, folder, files={CONFIG: file_digest(folder / CONFIG)})
    assert "must give the hashes" in refused(sealed.path, identity)


def test_a_claim_is_the_folder_s_name_with_its_manifest_s_hash(folder):
    digest = file_digest(folder / MANIFEST)
    named = folder.rename(folder.with_name(f"student-rd_0-{digest[:12]}"))
    assert claim(named) == AdapterRef(named.name, digest, named)
    for wrong in ("student-rd_0-" + "0" * 12, "base", "student-", "teacher-rd_0-" + digest[:12]):
        with pytest.raises(AdapterRefused):
            claim(named.rename(named.with_name(wrong)))
        named.with_name(wrong).rename(named)
    with pytest.raises(AdapterRefused, match="no such folder"):
        claim(named.with_name("student-gone-" + "0" * 12))


@pytest.mark.parametrize(
    "entries",
    [
        [],
        {"a": 1},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}},
        {"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}},
        {"a": {"dtype": "X", "shape": [2], "data_offsets": [0, 8]}},
        {"a": {"dtype": "F32", "shape": ["2"], "data_offsets": [0, 8]}},
    ],
)
def test_headers_that_make_no_sense_are_value_errors(tmp_path, entries):
    header = json.dumps(entries).encode()
    (tmp_path / "file").write_bytes(len(header).to_bytes(8, "little") + header + bytes(8))
    with pytest.raises(ValueError, match=r"safetensors|sense|overlap|describes"):
        read_header(tmp_path / "file")
