"""The tokenizer of `tiny`.

Byte-level BPE, so any text survives, with one token for each word of the order desk and for each piece of
boilerplate of the chat format.
No fused piece crosses the end of a turn: what the model samples up to `<|im_end|>` is tokenised the
same way when the conversation is rendered again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from agents.worlds.order_desk.kinds import CITIES, KINDS, ORDERS
from agents.worlds.order_desk.suite import FINAL_ANSWER, SYSTEM, TOOLS
from trainer.framing import encoder_text, with_references

TEMPLATE = "chat_template.jinja"
PAD, END = "<|endoftext|>", "<|im_end|>"
SPECIAL = (PAD, "<|im_start|>", END)
FUSED = (
    "<|im_start|>system\n",
    "<|im_start|>user\n",
    "\n<|im_start|>user\n",
    "\n<|im_start|>assistant\n",
    "\n<|im_start|>user\n<tool_response>\n",
    "\n</tool_response>",
    '<tool_call>\n{"name": "',
    '", "arguments": {"order": "',
    '", "city": "',
    '"}}\n</tool_call>',
    '{"status": "',
    '"}',
    "(order=",
    ", city=",
    ") -> ",
    "(order)\n",
    "(order, city)\n",
    *(tool.name for tool in TOOLS if "_" in tool.name),
)
_WORD_BUDGET = 4096


def build_tokenizer(template: str) -> PreTrainedTokenizerFast:
    """The tokenizer with its chat template; a function of the world's words alone."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=_WORD_BUDGET, initial_alphabet=sorted(alphabet), show_progress=False)
    tokenizer.train_from_iterator(_words(), trainer)
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in SPECIAL])
    tokenizer.add_tokens([AddedToken(piece, normalized=False) for piece in FUSED])
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=PAD, eos_token=END)
    fast.chat_template = template
    return fast


def save_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """Write the tokenizer's files beside the template that is already in the folder."""
    tokenizer = build_tokenizer((folder / TEMPLATE).read_text())
    tokenizer.save_pretrained(str(folder))
    return tokenizer


def _words() -> Iterable[str]:
    """Every word of the world, as it stands after a space and after a fused piece."""
    phrases = [phrase for kind in KINDS for phrase in (*kind.phrases, *kind.held_out_phrases)]
    frames = [with_references("", [""]), encoder_text("", ""), SYSTEM, FINAL_ANSWER, "Tools:\n", "ok"]
    named = [tool.name for tool in TOOLS] + [status for kind in KINDS for status in kind.statuses]
    text = re.sub(r"\{\w+\}", " ", "\n".join((*phrases, *frames)))
    words = {*re.findall(r"[^\W\d_]+|[.,:]", text), *CITIES, *ORDERS, *named}
    for word in sorted(words):
        yield from (word, f" {word}")
