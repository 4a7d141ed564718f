"""What a server of ours is started with."""

from dataclasses import replace
from pathlib import Path

import pytest

from agents.vllm_engine.launch import UNSAFE, Server

CPU = Server("python", Path("/models/tiny"), 1234)


def value(server, flag):
    words = server.command()
    return words[words.index(f"--{flag}") + 1]


def test_a_server_listens_on_loopback_only_and_calls_the_base_by_our_name():
    assert (value(CPU, "host"), value(CPU, "port"), CPU.url) == ("127.0.0.1", "1234", "http://127.0.0.1:1234")
    assert (value(CPU, "model"), value(CPU, "served-model-name")) == ("/models/tiny", "base")


def test_the_cpu_computes_in_fp32_and_a_gpu_as_the_model_says():
    assert value(CPU, "dtype") == "float32"
    cuda = replace(CPU, device="cuda")
    assert "--dtype" not in cuda.command()
    assert "--enforce-eager" not in cuda.command()
    assert "--no-enable-chunked-prefill" not in cuda.command()
    assert "CUDA_VISIBLE_DEVICES" not in cuda.environment({})


@pytest.mark.parametrize(("rank", "slot"), [(1, "1"), (4, "8"), (16, "16"), (17, "32"), (512, "512")])
def test_rank_is_rounded_up_to_what_vllm_accepts(rank, slot):
    assert value(replace(CPU, max_rank=rank), "max-lora-rank") == slot


def test_a_rank_that_no_slot_holds_is_refused():
    with pytest.raises(ValueError, match="up to 512"):
        replace(CPU, max_rank=513).command()


def test_vectors_as_prompts_are_off_unless_asked_for():
    assert "--enable-prompt-embeds" not in CPU.command()
    assert "--enable-prompt-embeds" in replace(CPU, prompt_embeds=True).command()


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_nothing_unsafe_is_inherited(device):
    outer = {**dict.fromkeys(UNSAFE, "1"), "RATCHET_OPERATOR_KEY": "secret", "PATH": "/bin"}
    inner = replace(CPU, device=device).environment(outer)
    assert {name: inner[name] for name in UNSAFE if name in inner} == (
        {"VLLM_PLUGINS": "ratchet_cpu_lora"} if device == "cpu" else {}
    )
    assert not any(name.startswith("RATCHET_") for name in inner)
    assert inner["PATH"] == "/bin"
    assert "load_inplace" not in " ".join(CPU.command())
