"""Φ: retrieved experiences become latent context (§3.2, eqs. 5-7).

The encoder is the shared backbone with its own adapter, the compressor a small module of its own; both fp32.
Shape suffixes: N texts, T tokens, K queries, D width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from trainer.compressor import Compressor
from trainer.config import ComposerConfig
from trainer.fused import Gather
from trainer.packing import Index, merged, pack
from trainer.roles import Roles, copied
from trainer.trunk import Trunk


class Composer:
    """One set of weights φ = (encoder adapter, compressor)."""

    def __init__(self, roles: Roles, tokenizer: PreTrainedTokenizerBase, adapter: str, config: ComposerConfig) -> None:
        self._roles = roles
        self._tokenizer = tokenizer
        self._adapter = adapter
        self._most = config.encoder_tokens
        self._embeddings = config.reads == "states+embeddings"
        weight: Tensor = roles.embed.weight
        heads = roles.config.num_attention_heads
        self.compressor = Compressor(weight.shape[1], heads, config.queries, config.depth, config.feed_forward)
        self.compressor.to(weight.device)
        if config.start == "identity":
            self.compressor.start_at_identity()
        if config.scale == "learned":
            self.compressor.learn_scale(weight.float().square().mean().sqrt().item())

    def compose(self, texts: Sequence[str]) -> Tensor:
        """Latents of each text, [N, K, D] float32; gradients reach φ. Texts are batched by length."""
        rows: list[list[int]] = self._tokenizer(list(texts), add_special_tokens=False)["input_ids"]
        order = sorted(range(len(rows)), key=lambda index: len(rows[index]))
        parts = [self._encode([rows[index] for index in part]) for part in self._parts(order, rows)]
        back = torch.tensor(order).argsort().to(parts[0].device)
        return torch.cat(parts).index_select(0, back)

    def _parts(self, order: list[int], rows: list[list[int]]) -> Iterator[list[int]]:
        part: list[int] = []
        for index in order:
            if part and (len(part) + 1) * len(rows[index]) > self._most:
                yield part
                part = []
            part.append(index)
        yield part

    def _encode(self, rows: list[list[int]]) -> Tensor:
        states_NTD, mask_NT = (
            self._padded(rows) if self._roles.packed is None else self._packed(self._roles.packed, rows)
        )
        if self._embeddings:
            states_NTD = _unit(states_NTD.float()) + _unit(self._roles.embed(self._padded_ids(rows)).float())
        latent_NKD: Tensor = self.compressor(states_NTD.float(), mask_NT)
        return latent_NKD

    def _padded_ids(self, rows: list[list[int]]) -> Tensor:
        ids = [torch.tensor(row, device=self._roles.embed.weight.device) for row in rows]
        return nn.utils.rnn.pad_sequence(ids, batch_first=True)

    def _packed(self, trunk: Trunk, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        tokens = merged(rows, self._roles.embed.weight.device)
        packing = pack(tokens.grids, tokens.position_N, trunk.heads)
        states_SD = trunk(self._roles.embed(tokens.ids_N), packing, self._adapter)
        token_NT = tokens.grids[0].token_BL
        mask_NT = token_NT >= 0
        index = Index.of(token_NT.clamp(min=0).flatten(), mask_NT.flatten(), len(states_SD))
        states: Tensor = Gather.apply(states_SD, index.take, index.cells, index.offsets)  # type: ignore[no-untyped-call]
        return states.view(*token_NT.shape, -1), mask_NT

    def _padded(self, rows: list[list[int]]) -> tuple[Tensor, Tensor]:
        ids_NT = self._padded_ids(rows)
        length = torch.tensor([len(row) for row in rows], device=ids_NT.device)
        # padding on the right of a causal model needs no attention mask; the compressor's own mask hides it
        with self._roles.acting(self._adapter):
            states_NTD = self._roles.trunk(input_ids=ids_NT, use_cache=False).last_hidden_state
        mask_NT = torch.arange(ids_NT.shape[1], device=ids_NT.device) < length[:, None]
        return states_NTD, mask_NT

    def parameters(self) -> list[nn.Parameter]:
        """φ."""
        own = [parameter for parameter in self.compressor.parameters() if parameter.requires_grad]
        return [*self._roles.parameters(self._adapter).values(), *own]

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """Copies of everything that φ consists of."""
        encoder = copied(self._roles.parameters(self._adapter))
        encoder = {key.replace(f".{self._adapter}.", "."): value for key, value in encoder.items()}
        compressor = {key: value.clone() for key, value in self.compressor.state_dict().items()}
        return {"encoder": encoder, "compressor": compressor}

    def load(self, weights: dict[str, dict[str, Tensor]]) -> None:
        """Inverse of `weights`, also between composers on different adapters."""
        names = self._roles.parameters(self._adapter)
        encoder = {key: weights["encoder"][key.replace(f".{self._adapter}.", ".")] for key in names}
        self._roles.load(self._adapter, encoder)
        self.compressor.load_state_dict(weights["compressor"])


class FrozenLatents:
    """c_φ0: latents of a composer that no longer changes, computed once for each (task, item)."""

    def __init__(self, composer: Composer) -> None:
        self.composer = composer
        self.cache: dict[str, Tensor] = {}
        """Text of (task, item) to [K, D]; cleared whenever the composer's weights are replaced."""

    @torch.no_grad()
    def compose(self, texts: Sequence[str]) -> Tensor:
        """[N, K, D], no gradient."""
        missing = [text for text in texts if text not in self.cache]
        if missing:
            self.cache.update(zip(missing, self.composer.compose(missing), strict=True))
        return torch.stack([self.cache[text] for text in texts])

    def replace(self, weights: dict[str, dict[str, Tensor]]) -> None:
        """Freeze these weights from now on."""
        self.composer.load(weights)
        self.cache.clear()


def _unit(states_NTD: Tensor) -> Tensor:
    """Every token's vector at RMS 1."""
    return nn.functional.rms_norm(states_NTD, states_NTD.shape[-1:], eps=torch.finfo(torch.float32).eps)
