import torch
from torch.testing import assert_close

from trainer.config import StudentConfig
from trainer.methods.follower import Follower
from trainer.roles import STUDENT, Roles


def product(roles, name):
    weights = roles.parameters(name)
    a, b = (next(w for key, w in weights.items() if part in key) for part in ("lora_A", "lora_B"))
    return (b @ a).detach()


def test_copies_stay_follow_or_mirror(new_backbone):
    roles, config = Roles(new_backbone().model), StudentConfig(rank=4, alpha=8.0)
    roles.add(STUDENT, 4, 8.0, 0, trained=True)
    still, slow, mirror = (
        Follower(roles, name, config, 0, rate) for name, rate in (("x", 0.0), ("y", 0.1), ("z", 1.0))
    )
    with torch.no_grad():
        for key, weight in roles.parameters(STUDENT).items():
            if "lora_B" in key:
                weight.fill_(1.0)
    for each in (still, slow, mirror):
        each.follow()
    student = product(roles, STUDENT)
    assert_close(product(roles, "x"), torch.zeros_like(student))
    # A is the student's from the start, so the product follows at the rate itself, not at its square
    assert_close(product(roles, "y"), 0.1 * student)
    assert_close(product(roles, "z"), student)
    kept = slow.weights()
    slow.begin()
    assert_close(product(roles, "y"), student)
    slow.load(kept)
    assert_close(product(roles, "y"), 0.1 * student)
