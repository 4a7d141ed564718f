"""The tiny base: tokenizer, corpus and recipe."""

import itertools
import json
import random
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from agents.model_folder import model_folder
from agents.worlds.order_desk.house import PRETRAINING_SEEDS
from agents.worlds.order_desk.kinds import KINDS
from agents.worlds.order_desk.suite import TOOLS
from trainer.tiny.corpus import Mix, conversations, unserved_house
from trainer.tiny.pretrain import EASY, Cycle, Recipe, pretrain
from trainer.tiny.tokenizer import FUSED, build_tokenizer

TEMPLATE = model_folder("tiny") / "chat_template.jinja"
TOKENIZER = build_tokenizer(TEMPLATE.read_text())


def rendered(messages: list[dict]) -> str:
    return TOKENIZER.apply_chat_template(messages, tools=[tool.to_wire() for tool in TOOLS], tokenize=False)


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=80))
def test_any_text_survives_the_tokenizer(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text, add_special_tokens=False)) == text


def test_shipped_tokenizer_is_what_the_script_makes() -> None:
    shipped = PreTrainedTokenizerFast.from_pretrained(str(model_folder("tiny")))
    assert shipped.get_vocab() == TOKENIZER.get_vocab()
    assert shipped.chat_template == TOKENIZER.chat_template


def test_every_word_of_the_world_is_one_token() -> None:
    for name in [tool.name for tool in TOOLS] + [status for kind in KINDS for status in kind.statuses]:
        assert len(TOKENIZER.encode(name, add_special_tokens=False)) == 1, name
    for piece in FUSED:
        assert len(TOKENIZER.encode(piece, add_special_tokens=False)) == 1, piece


def test_every_prompt_extends_the_prompt_and_the_reply_before_it() -> None:
    messages = next(conversations(0, Mix(referenced=1.0)))
    whole = TOKENIZER.encode(rendered(messages), add_special_tokens=False)
    for end in range(3, len(messages) + 1):
        part = TOKENIZER.encode(rendered(messages[:end]), add_special_tokens=False)
        assert whole[: len(part)] == part


def test_a_call_costs_six_tokens() -> None:
    text = '<tool_call>\n{"name": "refund", "arguments": {"order": "17"}}\n</tool_call><|im_end|>'
    assert len(TOKENIZER.encode(text, add_special_tokens=False)) == 6


def test_corpus_is_a_function_of_its_seed() -> None:
    first, again, other = (list(itertools.islice(conversations(seed, Mix()), 20)) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_served_houses_are_not_in_the_corpus() -> None:
    rng = random.Random(0)
    assert all(unserved_house(rng).seed >= PRETRAINING_SEEDS for _ in range(50))


def test_corpus_writes_calls_as_the_world_answers_them() -> None:
    for messages in itertools.islice(conversations(3, Mix()), 20):
        seen = [message["content"] for message in messages if message["role"] == "tool"]
        assert "status" in json.loads(seen[0])
        assert set(seen[1:]) <= {"ok"}


@pytest.mark.slow
def test_pretraining_repeats_bit_for_bit(tmp_path: Path) -> None:
    recipe = Recipe(cycles=(Cycle(((1, EASY), (1, Mix())), 1e-3), Cycle(((1, Mix()),), 1e-3)), batch=4)
    weights = []
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "chat_template.jinja").write_text(TEMPLATE.read_text())
        model = pretrain(folder, recipe, lambda _step, _loss: None)
        weights.append(model.state_dict())
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
