from dataclasses import replace

import pytest
import torch

from trainer.config import StudentConfig
from trainer.method_config import TextTeacherConfig
from trainer.methods.registry import REGISTRY
from trainer.methods.student_method import StudentMethod
from trainer.roles import STUDENT
from trainer.round_config import CONFIGS

STUDENT_CONFIG = StudentConfig(rank=4, alpha=8.0, learning_rate=1e-2)


@pytest.fixture
def new_method(new_backbone):
    """A method on a random base whose student has already moved a little."""

    def build(name, *, moved=True, **changes) -> StudentMethod:
        settings = {"student": STUDENT_CONFIG} | changes
        if issubclass(CONFIGS[name], TextTeacherConfig) and "evidence" not in changes:
            settings["evidence"] = "retrieved"
        method = REGISTRY[name](new_backbone(), CONFIGS[name](**settings), 3)
        if moved:
            torch.manual_seed(5)
            with torch.no_grad():
                for key, weight in method.roles.parameters(STUDENT).items():
                    if "lora_B" in key:
                        weight.normal_(std=0.05)
        return method

    return build


@pytest.fixture
def group(samples):
    """Two tasks, two rollouts each, with unequal rewards, own successes known, recorded by a random policy."""

    def build():
        every = samples(4)
        found = []
        for index, sample in enumerate(every):
            turns = tuple(replace(turn, logprobs=(-6.7,) * len(turn.sampled_ids)) for turn in sample.episode.turns)
            task = f"order_desk-0/train/{index // 2:04d}"
            episode = replace(sample.episode, id=f"ep_{index}", task_id=task, turns=turns)
            found.append(replace(sample, episode=episode, own=sample.references[1], canonical=every[0].episode))
        return found

    return build
