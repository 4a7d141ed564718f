"""Large backbones over several processes: FSDP2 shards the frozen base layer by layer, adapters stay whole everywhere.

A layer's weights are gathered when it runs and given back afterwards; for the gradient the layer is computed again, so
`checkpointing` must be on. The base needs no gradient, so nothing is scattered; the adapters' gradients are added up by
`trainer.team` as without sharding. Every process must run the same number of passes: a sharded team pads its shares
(`Team.turns`). Embeddings and head stay whole: the head is called on chunks of positions.
"""

from __future__ import annotations

from dataclasses import replace

from peft import PeftModel
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

from trainer.team import Team


def sharded(model: PeftModel, team: Team, mesh: DeviceMesh) -> Team:
    """Shard the base below these adapters in place, before a method is opened on it; returns the team that knows it."""
    for layer in model.get_base_model().base_model.layers:
        adapters = {weight for name, weight in layer.named_parameters() if "lora_" in name}
        fully_shard(layer, mesh=mesh, ignored_params=adapters)
    return replace(team, sharded=True)
