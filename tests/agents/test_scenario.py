"""EnvScaler's scenario format: how checks become a reward."""

from typing import Any

import pytest

from agents.scenario import ScenarioSession, World
from agents.tools.spec import ToolSpec
from bank.message import Message, Role


class Shelf:
    def __init__(self, init_config: dict[str, Any]) -> None:
        self.items = init_config["items"]

    def put(self, item: str) -> list[str]:
        self.items.append(item)
        return self.items

    def clear(self) -> None:
        self.items.clear()


WORLD = World("shelf", "", Shelf, (ToolSpec("put", "", {}),))
OPENING = (Message(Role.USER, "put a book there"),)


def session(*sources: str, items: tuple[str, ...] = ("pen",)) -> ScenarioSession:
    checks = [{"check_item": source, "check_func": source} for source in sources]
    return ScenarioSession(WORLD, {"init_config": {"items": list(items)}, "checklist_with_func": checks}, OPENING)


def check(body: str) -> str:
    return f"def check_func(final_state):\n    {body}\n"


def test_the_reward_is_the_fraction_of_checks_that_hold():
    running = session(*[check(f"return len(final_state['items']) > {n}") for n in range(3)])
    assert running.verify() == 0.3333
    assert running.call("put", {"item": "book"}) == "['pen', 'book']"
    assert running.verify() == 0.6667


@pytest.mark.parametrize(
    "source",
    [
        check("raise ValueError('no')"),
        check("return 1"),
        check("return 'True'"),
        check("return None"),
        check("return [True]"),
        check("return final_state['nothing'] == 1"),
        check("import math; return math.nan"),
        "def check_func():\n    return True\n",
        "def another_name(final_state):\n    return True\n",
        "raise RuntimeError",
        "def check_func(final_state:\n",
    ],
)
def test_a_check_that_raises_or_returns_no_bool_is_false(source):
    assert session(check("return True"), source).verify() == 0.5


def test_checks_can_compare_with_the_initial_state():
    running = session(check("return final_state['items'] == initial_state['items'] + ['book']"))
    assert running.verify() == 0.0
    running.call("put", {"item": "book"})
    assert running.verify() == 1.0


def test_a_check_can_not_change_what_others_see():
    spoil = check("final_state['items'].clear(); initial_state['items'].clear(); return True")
    intact = check("return final_state['items'] == initial_state['items'] == ['pen']")
    running = session(spoil, intact)
    assert [running.verify(), running.verify()] == [1.0, 1.0]


def test_a_check_can_use_what_its_own_source_defines():
    source = "import json\nLIMIT = 1\ndef check_func(final_state):\n    return len(json.dumps(LIMIT)) == 1\n"
    assert session(source).verify() == 1.0


def test_without_checks_there_is_no_verdict():
    assert session().verify() is None


@pytest.mark.parametrize("name", ["clear", "__init__", "items", "nothing"])
def test_only_declared_tools_can_be_called(name):
    running = session(check("return final_state['items'] == ['pen']"))
    with pytest.raises(KeyError, match=f"no tool {name}"):
        running.call(name, {})
    assert running.verify() == 1.0


def test_sessions_of_one_scenario_share_nothing():
    scenario = {
        "init_config": {"items": ["pen"]},
        "checklist_with_func": [{"check_item": "", "check_func": check("return len(final_state['items']) == 2")}],
    }
    first, second = (ScenarioSession(WORLD, scenario, OPENING) for _ in range(2))
    first.call("put", {"item": "book"})
    assert (first.verify(), second.verify()) == (1.0, 0.0)
    assert scenario["init_config"] == {"items": ["pen"]}
