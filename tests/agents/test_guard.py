import pytest

from agents.guard import RepeatGuard
from bank.message import Message, Role, ToolCall


def caught(guard, name, arguments="{}", result="ok", call_id="x"):
    call = ToolCall(call_id, name, arguments)
    return guard.caught([call], [Message(Role.TOOL, result, tool_call_id=call_id)])


def test_the_third_identical_round_is_caught():
    guard = RepeatGuard(3)
    assert [caught(guard, "look", call_id=str(turn)) for turn in range(3)] == [False, False, True]


def test_spacing_and_key_order_do_not_hide_a_repetition():
    guard = RepeatGuard(3)
    texts = ['{"a": 1, "b": 2}', '{"b":2,"a":1}', '{ "a":1,"b":2 }']
    assert [caught(guard, "look", text) for text in texts] == [False, False, True]


def test_broken_arguments_count_too():
    guard = RepeatGuard(2)
    assert [caught(guard, "look", '{"a') for _ in range(2)] == [False, True]


@pytest.mark.parametrize("length", [2, 3, 4])
def test_a_cycle_is_caught_when_it_has_gone_round_often_enough(length):
    guard = RepeatGuard(3)
    rounds = [caught(guard, f"tool{turn % length}") for turn in range(3 * length)]
    assert rounds == [False] * (3 * length - 1) + [True]


def test_a_changing_result_is_no_repetition():
    guard = RepeatGuard(3)
    assert not any(caught(guard, "poll", result=f"{percent} %") for percent in range(20))


def test_changing_arguments_are_no_repetition():
    guard = RepeatGuard(3)
    assert not any(caught(guard, "look", f'{{"page": {page}}}') for page in range(20))


def test_other_calls_in_between_are_no_repetition():
    guard = RepeatGuard(3)
    names = ["look", "look", "act", "look", "look", "tell"]
    assert not any(caught(guard, name) for name in names)


@pytest.mark.parametrize("repeats", [0, 1])
def test_fewer_than_two_repeats_switch_the_guard_off(repeats):
    guard = RepeatGuard(repeats)
    assert not any(caught(guard, "look") for _ in range(10))
