"""Prompts: what the model reads."""

import pytest
from transformers import AutoTokenizer

from agents.chat_template import arguments_object, template_form
from agents.engine import EngineFault
from agents.model_folder import SHIPPED, template_digest_of, weights_digest
from agents.transformers_engine.prompt import render, render_text
from agents.worlds.order_desk.suite import TOOLS
from bank.message import Message, Role, ToolCall
from tests.agents.tiny_rig import write_base

OPENING = (Message(Role.SYSTEM, "You run the order desk."), Message(Role.USER, "please refund order 17"))


@pytest.fixture(scope="module")
def tokenizer():
    return AutoTokenizer.from_pretrained(SHIPPED / "tiny", local_files_only=True)


def called(arguments):
    return Message(Role.ASSISTANT, "", (ToolCall("call_0", "refund", arguments),))


def test_arguments_reach_the_template_as_an_object():
    wire = template_form(called('{"order": "17"}'))
    assert wire["tool_calls"][0]["function"]["arguments"] == {"order": "17"}


@pytest.mark.parametrize("broken", ['{"order": "17"', "", "17", "null", "[1]", '"text"', "[" * 100_000])
def test_what_is_no_object_stays_text(broken):
    assert arguments_object(broken) == broken


def test_broken_arguments_are_shown_to_the_model_as_it_wrote_them(tokenizer):
    text = render_text(tokenizer, (*OPENING, called('{"order": "17"')))
    assert '"arguments": {"order": "17"}\n</tool_call>' in text
    assert '"arguments": {"order": "17"}}\n</tool_call>' in render_text(tokenizer, (*OPENING, called('{"order":"17"}')))


def test_a_prompt_is_the_template_s_text_and_ends_where_the_assistant_begins(tokenizer):
    ids = render(tokenizer, OPENING, TOOLS)
    text = render_text(tokenizer, OPENING, TOOLS)
    assert tokenizer.decode(list(ids)) == text
    assert text.endswith("<|im_start|>assistant\n")
    assert all(tool.name in text for tool in TOOLS)


def test_a_turn_s_prompt_continues_the_one_before(tokenizer):
    first = render(tokenizer, OPENING, TOOLS)
    second = render(tokenizer, (*OPENING, called('{"order": "17"}'), Message(Role.TOOL, "ok", (), "call_0")), TOOLS)
    assert second[: len(first)] == first


def test_a_template_that_refuses_is_an_engine_fault():
    strict = AutoTokenizer.from_pretrained(SHIPPED / "tiny", local_files_only=True)
    strict.chat_template = "{{ raise_exception('no system prompt') }}"
    with pytest.raises(EngineFault, match="no system prompt"):
        render(strict, OPENING)


def test_digests_follow_the_bytes(tmp_path):
    one, two = write_base(tmp_path / "one", 1), write_base(tmp_path / "two", 2)
    assert weights_digest(one) != weights_digest(two)
    assert template_digest_of(one) == template_digest_of(two)
    (two / "chat_template.jinja").write_text("other")
    assert template_digest_of(one) != template_digest_of(two)
    (two / "model.safetensors").rename(two / "model.bin")
    with pytest.raises(FileNotFoundError):
        weights_digest(two)
