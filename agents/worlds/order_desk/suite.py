"""OrderDeskSuite: resettable order-desk tasks of one house, in EnvScaler's scenario format."""

from __future__ import annotations

import inspect
import itertools
import random
from collections.abc import Mapping, Sequence
from typing import Any

from agents.environment import Task
from agents.scenario import ScenarioSession, World
from agents.tools.spec import ToolSpec
from agents.worlds.order_desk import world as world_module
from agents.worlds.order_desk.house import House
from agents.worlds.order_desk.kinds import CITIES, KINDS, ORDERS, Kind
from agents.worlds.order_desk.world import OrderDesk
from bank.episode import Split
from bank.message import Message, Role

NAME = "order_desk"
SYSTEM = "You run the order desk."
FINAL_ANSWER = "done"
TRAIN_TASKS = 480
HELD_OUT_TASKS = 208


def _spec(name: str) -> ToolSpec:
    method = getattr(OrderDesk, name)
    parameters = [key for key in inspect.signature(method).parameters if key != "self"]
    schema = {
        "type": "object",
        "properties": {key: {"type": "string"} for key in parameters},
        "required": parameters,
        "additionalProperties": False,
    }
    return ToolSpec(name, inspect.getdoc(method) or "", schema)


TOOLS = tuple(_spec(name) for name in vars(OrderDesk) if not name.startswith("_"))
WORLD = World(NAME, SYSTEM, OrderDesk, TOOLS)


class OrderDeskSuite:
    """All tasks of one house (`agents.environment.Environment`)."""

    def __init__(self, seed: int = 0) -> None:
        self.name = f"{NAME}-{seed}"
        self.house = House.of(seed)
        self._splits = {
            Split.TRAIN: self._build(Split.TRAIN, TRAIN_TASKS),
            Split.HELD_OUT: self._build(Split.HELD_OUT, HELD_OUT_TASKS),
        }
        self._by_id = {task.id: task for tasks in self._splits.values() for task in tasks}

    def tasks(self, split: Split) -> Sequence[Task]:
        """All tasks of a split; held-out ones use phrasings that no train task has."""
        return self._splits.get(split, ())

    def task(self, task_id: str) -> Task:
        """One task by id."""
        return self._by_id[task_id]

    def reset(self, task: Task) -> ScenarioSession:
        """A fresh desk."""
        opening = (Message(Role.SYSTEM, SYSTEM), Message(Role.USER, task.text))
        return ScenarioSession(WORLD, task.payload, opening)

    def live(self, text: str) -> ScenarioSession:
        """A desk where every order exists, with a status drawn from the text."""
        rng = random.Random(text)
        statuses = sorted({status for kind in KINDS for status in kind.statuses})
        orders = {order: {"status": rng.choice(statuses), "city": "Bern", "log": []} for order in ORDERS}
        opening = (Message(Role.SYSTEM, SYSTEM), Message(Role.USER, text))
        return ScenarioSession(WORLD, {"init_config": {"orders": orders}, "checklist_with_func": []}, opening)

    def gold(self, task: Task) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """The calls that solve a task with reward 1."""
        payload = task.payload
        order = payload["order"]
        procedure = self.house.rules[payload["kind"], payload["init_config"]["orders"][order]["status"]]
        return gold_calls(procedure, order, payload["city"])

    def _build(self, split: Split, count: int) -> tuple[Task, ...]:
        rng = random.Random(f"{self.name}-{split.value}")
        cells = itertools.cycle((kind, status) for kind in KINDS for status in kind.statuses)
        drawn: dict[str, Task] = {}
        for kind, status in itertools.islice(cells, count):
            task = self._task(rng, split, kind, status, len(drawn))
            # Two tasks of one text would judge the same thing twice, or let a task retrieve its own solution.
            while task.text in drawn:
                task = self._task(rng, split, kind, status, len(drawn))
            drawn[task.text] = task
        return tuple(drawn.values())

    def _task(self, rng: random.Random, split: Split, kind: Kind, status: str, index: int) -> Task:
        phrases = kind.phrases if split is Split.TRAIN else kind.held_out_phrases
        order, city = rng.choice(ORDERS), rng.choice(CITIES)
        text = rng.choice(phrases).format(order=order, city=city)
        payload = scenario(kind, status, self.house.rules[kind.name, status], order, city)
        return Task(f"{self.name}/{split.value}/{index:04d}", self.name, split, text, payload)


def env_class_code() -> str:
    """The world's class as text, as an EnvScaler world file carries it."""
    return inspect.getsource(world_module)


def scenario(kind: Kind, status: str, procedure: Sequence[str], order: str, city: str) -> dict[str, Any]:
    """One EnvScaler scenario: initial state and checklist."""
    orders = {order: {"status": status, "city": "Bern", "log": []}}
    checks = [_check(f"call {i + 1} is right", order, f"log[{i}:{i + 1}] == [{a!r}]") for i, a in enumerate(procedure)]
    checks.append(_check("nothing else was done", order, f"len(log) == {len(procedure)}"))
    if "set_city" in procedure:
        checks.append(_check("the city is right", order, f"order['city'] == {city!r}"))
    return {
        "env_id": NAME,
        "env_class_name": OrderDesk.__name__,
        "kind": kind.name,
        "order": order,
        "city": city,
        "init_config": {"orders": orders},
        "checklist_with_func": checks,
    }


def gold_calls(procedure: Sequence[str], order: str, city: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Look first, then the procedure."""
    return tuple((name, arguments(name, order, city)) for name in ("get_order", *procedure))


def arguments(name: str, order: str, city: str) -> dict[str, Any]:
    """The arguments object of one call about an order."""
    return {"order": order, "city": city} if name == "set_city" else {"order": order}


def _check(item: str, order: str, condition: str) -> dict[str, str]:
    source = (
        "def check_func(final_state):\n"
        f"    order = final_state['orders'][{order!r}]\n"
        "    log = order['log']\n"
        f"    return {condition}\n"
    )
    return {"check_item": item, "check_func": source}
