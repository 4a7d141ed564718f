"""How far the student has moved from whoever sampled a recorded trajectory."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from trainer.batch import Strands, batches_of
from trainer.methods.text_teacher import plain_point
from trainer.roles import STUDENT, Roles
from trainer.sample import Sample
from trainer.views import Passes


@torch.no_grad()
def log_ratios(roles: Roles, passes: Passes, samples: Sequence[Sample], budget: int) -> Tensor:
    """Log π_θ(τ) - log π_recorded(τ) over the sampled tokens of each sample, [B] float32, in nats.

    The environment's part cancels: it answered the same to both.
    """
    strands = Strands.of(samples)
    points = [plain_point(sequence.actions) for _, sequence in strands.found]
    ones_S = torch.ones(len(strands.trajectory_S))
    device: torch.device = roles.embed.weight.device
    found_B = torch.zeros(len(samples), device=device)
    for batch in batches_of(strands.rows(points, ones_S, ones_S), budget, 0, device):
        logp_S = passes.sampled(passes.plain(batch, STUDENT), batch.action_S)
        found_B.index_add_(0, batch.trajectory_B[batch.row_S], logp_S - batch.recorded_S)
    return found_B.cpu()
