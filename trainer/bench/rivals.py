"""TRL's experimental SDFT and SDPO trainers on the same tokens: their `compute_loss`, backward, clip and AdamW step."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

from agents.adapter import PROJECTIONS
from trainer.config import StudentConfig
from trainer.sample import Sample


def trl_version() -> str | None:
    """Installed version, or None."""
    try:
        import trl  # noqa: PLC0415 - optional
    except ImportError:
        return None
    return str(trl.__version__)


def trl_step(
    name: str, base: Qwen3ForCausalLM, reads: PreTrainedTokenizerBase, batch: dict[str, Tensor], folder: Path
) -> Callable[[], float]:
    """One training step of TRL's trainer `name` ("sdft" or "sdpo"), with our losses' settings as far as it has them."""
    from trl.experimental.sdft.teacher_sync import PEFTAdapterEMACallback as Sdft  # noqa: PLC0415 - optional
    from trl.experimental.sdpo.teacher_sync import PEFTAdapterEMACallback as Sdpo  # noqa: PLC0415

    trainer = _trainer(name, base, reads, folder)
    trainer.current_gradient_accumulation_steps = 1
    model = trainer.model.train()
    followers = [each for each in trainer.callback_handler.callbacks if isinstance(each, Sdft | Sdpo)]
    for each in followers:
        each.on_train_begin(trainer.args, trainer.state, trainer.control)
    parameters = [weight for weight in model.parameters() if weight.requires_grad]
    student = StudentConfig()
    optimizer = torch.optim.AdamW(parameters, lr=student.learning_rate, weight_decay=student.weight_decay, fused=True)

    def step() -> float:
        optimizer.zero_grad(set_to_none=True)
        loss = trainer.compute_loss(model, dict(batch))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, student.clip)
        optimizer.step()
        for each in followers:
            each.on_step_end(trainer.args, trainer.state, trainer.control)
        return float(loss.item())

    return step


def batch_of(samples: Sequence[Sample], teacher_prompts: Sequence[Sequence[int]], pad: int) -> dict[str, Tensor]:
    """Single-turn samples as TRL's batch: prompts padded on the left, completions on the right."""
    turns = [sample.episode.turns[0] for sample in samples]
    prompts, prompt_mask = _left([turn.prompt_ids for turn in turns], pad)
    completions = [torch.tensor(turn.sampled_ids) for turn in turns]
    completion_ids = pad_sequence(completions, batch_first=True, padding_value=pad)
    completion_mask = pad_sequence([torch.ones_like(each) for each in completions], batch_first=True)
    old = pad_sequence([torch.tensor(turn.logprobs) for turn in turns], batch_first=True)
    teacher, teacher_mask = _left(teacher_prompts, pad)
    return {
        "prompt_ids": prompts,
        "prompt_mask": prompt_mask,
        "completion_ids": completion_ids,
        "completion_mask": completion_mask,
        "old_per_token_logps": old,
        "teacher_input_ids": torch.cat([teacher, completion_ids], dim=1),
        "teacher_attention_mask": torch.cat([teacher_mask, completion_mask], dim=1),
        "self_distillation_mask": torch.ones(len(turns)),
        "advantages": torch.zeros(len(turns)),
        "raw_completion_lengths": completion_mask.sum(1),
    }


def _left(rows: Sequence[Sequence[int]], pad: int) -> tuple[Tensor, Tensor]:
    longest = max(map(len, rows))
    ids = torch.tensor([[pad] * (longest - len(row)) + list(row) for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    return ids, mask


def _trainer(name: str, base: Qwen3ForCausalLM, reads: PreTrainedTokenizerBase, folder: Path) -> Any:
    from datasets import Dataset  # noqa: PLC0415 - optional, with TRL

    student = StudentConfig()
    lora = LoraConfig(r=student.rank, lora_alpha=student.alpha, target_modules=list(PROJECTIONS), task_type="CAUSAL_LM")
    rows = Dataset.from_list([{"prompt": "please", "privileged_context": "order"}] * 8)
    common: dict[str, Any] = {
        "output_dir": str(folder),
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        "per_device_train_batch_size": 8,
        "teacher_model_kind": "ema",
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TRL says of each of these trainers that it is experimental
        if name == "sdft":
            from trl.experimental.sdft import SDFTConfig, SDFTTrainer  # noqa: PLC0415

            args = SDFTConfig(
                **common, distillation_mode="full_logits", distillation_alpha=0.0, num_loss_tokens_to_skip=3
            )
            return SDFTTrainer(base, args=args, train_dataset=rows, processing_class=reads, peft_config=lora)
        from trl.experimental.sdpo import SDPOConfig, SDPOTrainer  # noqa: PLC0415

        args = SDPOConfig(
            **common,
            distillation_mode="topk_logits",
            distillation_topk=100,
            distillation_alpha=1.0,
            distillation_add_tail=True,
            num_generations=2,
        )
        return SDPOTrainer(
            base,
            reward_funcs=lambda **_: [0.0],
            args=args,
            train_dataset=rows,
            processing_class=reads,
            peft_config=lora,
        )
