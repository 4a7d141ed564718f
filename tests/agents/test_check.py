import json

import pytest

from agents.tools.check import CallCheck, ToolError
from agents.tools.spec import ToolSpec
from bank.message import ToolCall

MOVE = {
    "type": "object",
    "properties": {
        "order": {"type": "string"},
        "city": {"type": "string", "enum": ["Oslo", "Lima"]},
        "count": {"type": ["integer", "null"], "minimum": 1},
    },
    "required": ["order", "city"],
    "additionalProperties": False,
}
CHECK = CallCheck([ToolSpec("move", "Move.", MOVE), ToolSpec("list_all", "", {"type": "object"})])


def check(name, arguments):
    text = arguments if isinstance(arguments, str) else json.dumps(arguments)
    return CHECK.arguments(ToolCall("x", name, text))


def refusal(name, arguments):
    with pytest.raises(ToolError) as refused:
        check(name, arguments)
    return str(refused.value)


def test_good_arguments_come_back_parsed():
    assert check("move", {"order": "17", "city": "Oslo", "count": None}) == {
        "order": "17",
        "city": "Oslo",
        "count": None,
    }


@pytest.mark.parametrize("name", ["Move", "MOVE", "mov", "move ", "move_order", "__class__", "list-all"])
def test_a_name_is_matched_exactly_and_the_valid_ones_are_listed(name):
    assert refusal(name, {"order": "17", "city": "Oslo"}) == f"unknown tool {name}; tools: move, list_all"


def test_a_call_without_a_name_shows_the_format():
    expected = 'broken tool call, write {"name": ..., "arguments": {...}}; tools: move, list_all'
    assert refusal("", "whatever") == expected


def test_missing_keys_are_named_together():
    assert refusal("move", {}) == "move: missing order, city"


def test_a_wrong_key_names_the_missing_one_and_the_valid_ones():
    text = refusal("move", {"ordr": "17", "city": "Oslo"})
    assert text == "move: missing order; unknown ordr; arguments: order, city, count"


def test_a_wrong_enum_lists_the_choices():
    assert refusal("move", {"order": "17", "city": "Rome"}) == "move: city must be one of Oslo, Lima"


@pytest.mark.parametrize(("value", "text"), [(17, "order must be string"), (None, "order must be string")])
def test_a_wrong_type_names_the_right_one(value, text):
    assert refusal("move", {"order": value, "city": "Oslo"}) == f"move: {text}"


@pytest.mark.parametrize("count", [True, 1.5, "1"])
def test_what_only_looks_like_an_integer_is_refused(count):
    expected = "move: count must be integer or null"
    assert refusal("move", {"order": "1", "city": "Oslo", "count": count}) == expected


def test_other_rules_speak_for_themselves():
    text = refusal("move", {"order": "1", "city": "Oslo", "count": 0})
    assert text == "move: count: 0 is less than the minimum of 1"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        '{"order": "1"',
        "{'order': 1}",
        '{"n": NaN}',
        '{"n": -Infinity}',
        '{"n": 1e400}',
        "[" * 100_000,
        '{"n": ' + "9" * 10_000 + "}",
    ],
)
def test_broken_json_is_refused(text):
    assert refusal("list_all", text).startswith("arguments are broken JSON: ")


@pytest.mark.parametrize("text", ["null", "[]", '"{}"', "17", "true"])
def test_arguments_must_be_an_object(text):
    assert refusal("list_all", text) == "arguments must be a JSON object"


def test_errors_stay_short_whatever_the_model_wrote():
    assert len(refusal("x" * 100_000, {})) < 120
    assert len(refusal("move", {f"key{number}": 1 for number in range(10_000)})) < 200
    assert len(refusal("move", {"order": "1", "city": "x" * 100_000})) < 200


def test_a_long_toolset_is_listed_shortened():
    many = CallCheck([ToolSpec(f"tool_number_{number}", "", {"type": "object"}) for number in range(1000)])
    with pytest.raises(ToolError) as refused:
        many.arguments(ToolCall("x", "nope", "{}"))
    assert len(str(refused.value)) < 700


def test_two_tools_of_one_name_are_a_mistake():
    with pytest.raises(ValueError, match="tool names repeat"):
        CallCheck([ToolSpec("a", "", {}), ToolSpec("a", "", {})])
