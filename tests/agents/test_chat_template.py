"""The torch-free prompt is the one that transformers renders, token for token."""

import json
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from agents.chat_template import ChatTemplate
from agents.engine import EngineFault
from agents.model_folder import SHIPPED
from agents.transformers_engine.prompt import render
from agents.worlds.order_desk.suite import TOOLS
from bank.message import Message, Role, ToolCall

TINY = SHIPPED / "tiny"
TOKENIZER = AutoTokenizer.from_pretrained(TINY, local_files_only=True)
TEMPLATE = ChatTemplate(TINY)
QWEN = """{%- if tools %}{{- '<tools>' }}{%- for tool in tools %}{{- '\\n' }}{{- tool | tojson }}{%- endfor %}{%- endif %}
{%- for message in messages %}
    {%- if message.role == "system" and loop.first %}{%- continue %}{%- endif %}
    {{- '<|im_start|>' + message.role + '\\n' + message.content + eos_token }}
{%- endfor %}
{% if add_generation_prompt %}
{{- '<|im_start|>assistant\\n' }}
{% endif %}"""

text = st.text(max_size=40)
calls = st.builds(ToolCall, st.just("call_0"), text, st.one_of(text, st.just('{"order": "17", "ü": [1, null]}')))
messages = st.lists(
    st.builds(Message, st.sampled_from(Role), text, st.lists(calls, max_size=2).map(tuple)), min_size=1, max_size=5
)


@given(messages, st.sampled_from([(), TOOLS]))
def test_prompts_are_those_of_transformers(conversation, tools):
    assert TEMPLATE.render(conversation, tools) == render(TOKENIZER, conversation, tools)


@given(st.lists(st.integers(0, len(TOKENIZER) - 1), max_size=30))
def test_tokens_read_as_transformers_reads_them(ids):
    assert TEMPLATE.decode(ids) == TOKENIZER.decode(ids, skip_special_tokens=False)


def test_a_template_with_loop_controls_named_tokens_and_json_is_rendered_the_same(tmp_path):
    shutil.copytree(TINY, tmp_path / "other", ignore=shutil.ignore_patterns("*.safetensors"))
    (tmp_path / "other" / "chat_template.jinja").write_text(QWEN)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "other", local_files_only=True)
    opening = (Message(Role.SYSTEM, "hidden"), Message(Role.USER, "<b> & 'ä'"))
    mine = ChatTemplate(tmp_path / "other")
    assert mine.render(opening, TOOLS) == render(tokenizer, opening, TOOLS)
    assert "hidden" not in mine.render_text(opening)


def test_a_template_that_refuses_is_an_engine_fault(tmp_path):
    shutil.copytree(TINY, tmp_path / "strict", ignore=shutil.ignore_patterns("*.safetensors"))
    (tmp_path / "strict" / "chat_template.jinja").write_text("{{ raise_exception('no system prompt') }}")
    with pytest.raises(EngineFault, match="no system prompt"):
        ChatTemplate(tmp_path / "strict").render((Message(Role.USER, "hi"),))


def test_missing_files_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"tokenizer\.json"):
        ChatTemplate(tmp_path)


def test_the_end_and_the_vocabulary_are_the_tokenizer_s():
    assert TEMPLATE.end_id == TOKENIZER.eos_token_id
    assert TEMPLATE.vocabulary == len(TOKENIZER) == json.loads((TINY / "config.json").read_text())["vocab_size"]
