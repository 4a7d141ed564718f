from __future__ import annotations

import torch
from safetensors.torch import load

from agents.adapter import PROJECTIONS
from trainer.roles import STUDENT, Roles
from trainer.student import student_config, student_digest, student_weights


def student(new_backbone, seed=0):
    backbone = new_backbone()
    roles = Roles(backbone.model)
    roles.add(STUDENT, 4, 8.0, seed, trained=True)
    roles.add("encoder", 2, 4.0, 1, trained=True)
    return backbone.model, roles


def test_equal_weights_have_equal_bytes(new_backbone):
    (first, _), (second, _), (third, _) = (student(new_backbone, seed) for seed in (0, 0, 1))
    assert student_weights(first) == student_weights(second) != student_weights(third)
    assert student_digest(first) == student_digest(second)


def test_only_the_students_adapter_is_written(new_backbone):
    model, roles = student(new_backbone)
    tensors = load(student_weights(model))
    assert len(tensors) == len(roles.parameters(STUDENT)) == 2 * 2 * len(PROJECTIONS)
    assert not any("encoder" in name or STUDENT in name for name in tensors)


def test_a_changed_weight_changes_the_digest(new_backbone):
    model, roles = student(new_backbone)
    before = student_digest(model)
    with torch.no_grad():
        next(iter(roles.parameters(STUDENT).values())).add_(1.0)
    assert student_digest(model) != before


def test_the_configuration_says_plain_lora_and_no_path(new_backbone):
    config = student_config(student(new_backbone)[0])
    assert (config["r"], config["lora_alpha"], config["peft_type"]) == (4, 8.0, "LORA")
    assert config["target_modules"] == sorted(PROJECTIONS)
    assert config["base_model_name_or_path"] is None
