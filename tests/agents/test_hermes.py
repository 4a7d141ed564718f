"""Hermes parsing: what a reply means, and that chunking never changes it."""

import itertools
import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.parsing.hermes import HermesStream, Parsed, collect, parse
from bank.message import ToolCall

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
ARGUMENTS = st.dictionaries(st.text(), JSON, max_size=4)
TRICKY = st.sampled_from(
    [
        "<tool_call>",
        "</tool_call>",
        "<think>",
        "</think>",
        '{"name": "a", "arguments": {}}',
        '{"name": "a", "arguments": {"x": "</tool_call>"}}',
        '{"name": "b", "argu',
        '"',
        "\\",
        "{",
        "}",
        "\n",
        " ",
        "<too",
        "l_call>",
        "text",
        "é漢🙂",
        ";",
    ]
)
REPLIES = st.lists(TRICKY | st.text(max_size=5), max_size=14).map("".join)


def call_text(name: str, arguments: str) -> str:
    return f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {arguments}}}\n</tool_call>'


def streamed(text: str, chunks: list[str], *, thinking: bool = False) -> Parsed:
    assert "".join(chunks) == text
    stream = HermesStream(thinking=thinking)
    deltas = [delta for chunk in chunks for delta in stream.feed(chunk)]
    return collect([*deltas, *stream.finish()])


def widths(text: str) -> list[list[str]]:
    return [[text[at : at + width] for at in range(0, len(text), width)] for width in (1, 2, 3, 5, 8, 13)]


def split(text: str, cuts: list[int]) -> list[str]:
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [text[left:right] for left, right in itertools.pairwise(edges)]


def calls(parsed: Parsed) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in parsed.tool_calls]


@given(REPLIES, st.lists(st.integers(0, 10_000), max_size=6), st.booleans())
@example('<tool_call>{"name": "a", "arguments": {"t": "\\"</tool_call>"}}</tool_call>after', [30], False)
@example('<think>x<tool_call>"</think><tool_call>{"name": "a", "arguments": {}}</tool_call>', [20, 40], False)
def test_any_reply_reads_the_same_at_every_chunking(text, cuts, thinking):
    whole = parse(text, thinking=thinking)
    for chunks in (split(text, cuts), *widths(text)):
        assert streamed(text, chunks, thinking=thinking) == whole


@given(st.lists(st.tuples(st.text(min_size=1, max_size=8), ARGUMENTS, st.booleans()), min_size=1, max_size=3))
def test_random_arguments_come_back_byte_by_byte(wanted):
    written = [(name, json.dumps(arguments, ensure_ascii=ascii_only)) for name, arguments, ascii_only in wanted]
    parsed = parse("\n".join(call_text(name, arguments) for name, arguments in written))
    assert [arguments for _, arguments in calls(parsed)] == [arguments for _, arguments in written]
    assert [json.loads(call.arguments) for call in parsed.tool_calls] == [arguments for _, arguments, _ in wanted]
    assert parsed.content == ""


@given(st.text(alphabet=st.characters(exclude_characters="<", exclude_categories=["Cs"])))
def test_prose_without_tags_is_content(text):
    assert parse(text) == Parsed(text.strip(), ())


def test_a_closing_tag_inside_a_string_does_not_end_the_call():
    arguments = json.dumps({"page": 'Hermes: <tool_call>{"name": "x"}</tool_call> and "\\" and <think>'})
    text = call_text("write", arguments) + "tail"
    for chunks in widths(text):
        assert streamed(text, chunks) == Parsed("tail", (ToolCall("call_0", "write", arguments),))


def test_arguments_keep_their_own_spacing_and_numbers():
    arguments = '{ "a" :1.50,"b":[ 1,2 ] ,  "c": 1e400 }'
    assert calls(parse(call_text("f", arguments))) == [("f", arguments)]


@pytest.mark.parametrize("depth", [1, 5, 20])
def test_nested_arguments_are_found_whole(depth):
    arguments = '{"a": ' * depth + "1" + "}" * depth
    assert calls(parse(call_text("f", arguments))) == [("f", arguments)]


def test_key_order_does_not_matter_and_the_last_duplicate_wins():
    text = '<tool_call>{"arguments": {"a": 1}, "name": "f", "arguments": {"a": 2}}</tool_call>'
    assert calls(parse(text)) == [("f", '{"a": 2}')]


@pytest.mark.parametrize("written", ['"arguments": null', '"arguments": ""', '"arguments": {}', '"id": 3'])
def test_absent_arguments_are_an_empty_object(written):
    assert calls(parse(f'<tool_call>{{"name": "f", {written}}}</tool_call>')) == [("f", "{}")]


def test_arguments_written_as_a_string_are_decoded_once():
    text = call_text("f", json.dumps('{"order": "17 \\"x\\""}'))
    assert calls(parse(text)) == [("f", '{"order": "17 \\"x\\""}')]


def test_half_a_surrogate_pair_never_leaves_the_parser():
    ((name, arguments),) = calls(parse('<tool_call>{"name": "f\\ud800", "arguments": "{\\udfff"}</tool_call>'))
    assert (name, arguments) == ("f?", "{?")


def test_nul_never_leaves_the_parser():
    parsed = parse("a\0b" + call_text("f\0", '{"x": "\0"}'))
    assert parsed.content == "a\ufffdb"
    assert calls(parsed) == [("f\ufffd", '{"x": "\ufffd"}')]


def test_a_missing_closing_tag_still_gives_the_call():
    parsed = parse('Looking.\n<tool_call>\n{"name": "f", "arguments": {"a": 1}}')
    assert (parsed.content, calls(parsed)) == ("Looking.", [("f", '{"a": 1}')])


def test_a_call_that_was_never_closed_does_not_swallow_the_next():
    text = '<tool_call>{"name": "f", "arguments": {}}\n' + call_text("g", "{}")
    assert calls(parse(text)) == [("f", "{}"), ("g", "{}")]


@pytest.mark.parametrize("separator", ["", "\n", "; ", ",", " "])
def test_several_calls_between_two_tags_are_all_kept(separator):
    body = separator.join(f'{{"name": "{name}", "arguments": {{}}}}' for name in "fgh")
    assert [name for name, _ in calls(parse(f"<tool_call>{body}</tool_call>"))] == ["f", "g", "h"]
    assert [name for name, _ in calls(parse(f"<tool_call>[{body}]</tool_call>"))] == ["f", "g", "h"]


def test_ids_are_unique_in_a_reply():
    parsed = parse(call_text("f", "{}") * 3)
    assert [call.id for call in parsed.tool_calls] == ["call_0", "call_1", "call_2"]


def test_text_around_calls_is_content():
    parsed = parse(f"  First {{x}}.\n{call_text('f', '{}')}\n\nThen this. ")
    assert parsed.content == "First {x}.\n\n\nThen this."


def test_text_behind_a_call_inside_its_tags_is_content():
    parsed = parse('<tool_call>{"name": "f", "arguments": {}} I hope so</tool_call>')
    assert (parsed.content, calls(parsed)) == ("I hope so", [("f", "{}")])


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ('{"name": "refund", "arguments": {"order": "17"}', "refund"),
        ('{"name": "refund", "arguments": {"order": 17', "refund"),
        ('{"name": "refund, "arguments": {"order": "17"}}', "refund, "),
        ("{'name': 'refund'}", ""),
        ("refund(17)", ""),
        ("", ""),
        ("[1, 2]", ""),
        ("[" * 100_000, ""),
        ('{"a":' * 100_000, ""),
        ('{"name": "f", "arguments": {"n": ' + "9" * 10_000 + "}}", "f"),
    ],
)
def test_a_broken_call_stays_a_call_with_its_raw_text(body, name):
    parsed = parse(f"<tool_call>{body}</tool_call>{call_text('next', '{}')}")
    assert calls(parsed) == [(name, body), ("next", "{}")]


@pytest.mark.parametrize("body", ['{"function": {"name": "refund"}}', '{"name": 5}', '{"name": ""}', "{}"])
def test_a_call_without_a_name_is_never_given_one(body):
    assert calls(parse(f"<tool_call>{body}</tool_call>")) == [("", body)]


def test_a_broken_second_call_keeps_the_first():
    parsed = parse('<tool_call>{"name": "f", "arguments": {}}\n{"name": "g", "argu</tool_call>')
    assert calls(parsed) == [("f", "{}"), ("g", '{"name": "g", "argu')]


def test_reasoning_is_no_content():
    parsed = parse("<think>\nThe order is 17.\n</think>\n\nRefunded.")
    assert parsed == Parsed("Refunded.", (), "The order is 17.")


def test_unclosed_reasoning_is_no_answer():
    assert parse("<think>hm, hm") == Parsed("", (), "hm, hm")


def test_a_prompt_that_opened_the_reasoning():
    assert parse("hm</think>Done.", thinking=True) == Parsed("Done.", (), "hm")


@pytest.mark.parametrize("ending", ["</think>ok", "", "more"])
def test_a_call_inside_reasoning_is_recovered(ending):
    parsed = parse(f"<think>I need it. {call_text('f', '{}')}{ending}")
    assert calls(parsed) == [("f", "{}")]
    assert parsed.reasoning.startswith("I need it.")


def test_talk_about_calls_inside_reasoning_is_no_call():
    parsed = parse(f'<think>I could write "<tool_call>" here</think>{call_text("f", "{}")}')
    assert calls(parsed) == [("f", "{}")]
    assert parsed.reasoning == 'I could write "<tool_call>" here'


def test_stray_closing_tags_are_dropped():
    assert parse("</think>Done.</tool_call>") == Parsed("Done.", ())


def test_content_is_handed_on_before_the_reply_ends():
    stream = HermesStream()
    assert [delta.content for delta in stream.feed("Hello there <to")] == ["Hello there"]
    assert [delta.content for delta in stream.feed("m>!")] == [" <tom>!"]
    assert stream.finish() == []


def test_a_call_is_handed_on_as_soon_as_it_closes():
    stream = HermesStream()
    assert stream.feed(call_text("f", "{}")[:-1]) == []
    (delta,) = stream.feed(">")
    assert delta.call == ToolCall("call_0", "f", "{}")
