import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch.testing import assert_close

from trainer.bench import gpu
from trainer.bench.measure import in_turns, peak_of, ratios
from trainer.bench.released import Released
from trainer.bench.rivals import batch_of, trl_step, trl_version
from trainer.bench.shapes import SINGLE_TURN, Load, Shape, backbone_of, base_of, samples_of, tokenizer
from trainer.config import ComposerConfig, LopdConfig, StudentConfig
from trainer.method_config import SdftConfig
from trainer.methods.lopd import Lopd
from trainer.methods.sdft import Sdft

SMALL = Shape(hidden=64, intermediate=96, layers=2, heads=2, key_heads=1, width=32, vocabulary=1000)
LOAD = Load(rows=4, prompt=20, turns=2, sampled=6, observed=10, references=2, reference=8)
COMPOSER = ComposerConfig(references=2, queries=3, depth=2, rank=2)


def test_the_plain_procedure_has_our_loss_and_gradient(tmp_path):
    config = LopdConfig(composer=COMPOSER, student=StudentConfig(clip=1e9), composer_clip=1e9, beta=1.0)
    lopd = Lopd(backbone_of(base_of(SMALL)), config, 0)
    lopd.freeze()
    with torch.no_grad():
        for key, weight in lopd.equipment.roles.parameters("student").items():
            if "lora_B" in key:
                weight.normal_(std=0.05)
        lopd.equipment.composer.compressor.queries_KD.mul_(1.5)
    samples = samples_of(LOAD, SMALL.vocabulary)
    loss = lopd.gradient(samples)["loss"]
    ours = [weight.grad.clone() for weight in lopd.trained]
    for weight in lopd.trained:
        weight.grad = None
    trunk = lopd.equipment.roles.trunk
    save_file({k: w.detach() for k, w in trunk.named_parameters() if "lora" not in k}, tmp_path / "base.safetensors")
    assert Released(lopd, tmp_path / "base.safetensors").step(samples) == pytest.approx(loss, rel=1e-5)
    for expected, weight in zip(ours, lopd.trained, strict=True):
        assert_close(weight.grad, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.skipif(trl_version() is None, reason="trl is not installed (extra: bench)")
@pytest.mark.filterwarnings("ignore")
def test_trls_sdft_has_our_loss_on_the_same_tokens(tmp_path):
    load = replace(SINGLE_TURN, rows=3, prompt=12, sampled=8)
    samples, reads = samples_of(load, SMALL.vocabulary), tokenizer()
    sdft = Sdft(backbone_of(base_of(SMALL)), SdftConfig(), 0)
    prompts = [sdft.text.rendered(sdft.opening(each, samples), each) for each in samples]
    step = trl_step("sdft", base_of(SMALL), reads, batch_of(samples, prompts, reads.pad_token_id), tmp_path)
    # both clip the importance ratio at 2; TRL weighs each token with its own, we with the trajectory's mean
    assert step() == pytest.approx(sdft.step(samples)["loss"], rel=0.1)


def test_ratios_compare_what_was_measured_in_the_same_turn():
    assert ratios([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]) == {"min": 1.0, "median": 2.0, "max": 3.0}
    calls = []
    found = in_turns({"a": lambda: calls.append("a"), "b": lambda: calls.append("b")}, 2)
    assert calls == ["a", "b"] * 3
    assert {name: len(values) for name, values in found.items()} == {"a": 2, "b": 2}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peaks are read from Linux's /proc")
def test_the_peak_is_what_was_held_at_its_highest():
    assert peak_of(lambda: torch.ones(64 * 2**20 // 4).sum()) >= 60 * 2**20


def test_the_gpu_check_runs_on_a_cpu(capsys):
    arguments = ["--device", "cpu", "--dtype", "float32", "--shape", "small", "--rows", "2", "--length", "700"]
    gpu.SHAPES["small"] = SMALL
    try:
        assert gpu.main([*arguments, "--repeats", "1"]) == 0
    finally:
        del gpu.SHAPES["small"]
    found = json.loads(capsys.readouterr().out)["small"]
    assert found["lopd"]["tokens_per_second"] > found["lopd"]["supervised_tokens_per_second"] > 0
    assert found["split_seconds"].keys() == {"composer", "teacher", "student"}


def test_flops_count_every_pass_once():
    shape, load = (
        Shape(hidden=2, intermediate=3, layers=1, heads=1, key_heads=1, width=2, vocabulary=5),
        Load(rows=1, prompt=1, turns=1, sampled=1, observed=0, references=1, reference=1),
    )
    weights = 2 * 2 * 4 + 3 * 2 * 3
    assert gpu.step_flops("lopd", shape, load) == weights * (4 * 2 + 4 * 3) + 2 * 5 * 8
    assert gpu.step_flops("sdft", shape, load) == weights * (4 * 2 + 2 * 3) + 2 * 5 * 8
