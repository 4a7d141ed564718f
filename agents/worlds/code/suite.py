"""CodeSuite: write a function, run it on examples, be judged by tests that were not shown (`agents.environment.Environment`)."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from agents.environment import Task
from agents.tools.spec import ToolSpec
from agents.worlds.code.problems import FAMILIES, Family
from agents.worlds.code.sandbox import Answer, run
from bank.episode import Split
from bank.message import Message, Role

NAME = "code"
SYSTEM = "You write Python. Define solve(x), submit it, mend it when an example fails, then say done."
FINAL_ANSWER = "done"
SHOWN, HIDDEN = 2, 6
TRAIN_TASKS, HELD_OUT_TASKS = 160, 80
LARGEST = 12
"""Largest number a task draws."""
TOOLS = (
    ToolSpec(
        "submit",
        "Run the code on the examples; the last submission counts.",
        {
            "type": "object",
            "properties": {"code": {"type": "string"}},
            "required": ["code"],
            "additionalProperties": False,
        },
    ),
)


class CodeSession:
    """One attempt at one problem (`agents.environment.Session`)."""

    def __init__(self, task: Task | None, text: str) -> None:
        self.opening: tuple[Message, ...] = (Message(Role.SYSTEM, SYSTEM), Message(Role.USER, text))
        self.tools: tuple[ToolSpec, ...] = TOOLS
        self._cases: Sequence[Any] = () if task is None else task.payload["cases"]
        self._share = 0.0

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Run the submission on all tests; tell about the shown ones only."""
        if name != "submit":
            raise KeyError(f"no tool {name}")
        answers = await run(arguments["code"], [case["inputs"] for case in self._cases])
        right = [_right(answer, case) for answer, case in zip(answers, self._cases, strict=True)]
        hidden = right[SHOWN:]
        self._share = sum(hidden) / len(hidden) if hidden else 0.0
        return "\n".join(_told(*each) for each in zip(self._cases[:SHOWN], answers, right, strict=False)) or "noted"

    def verify(self) -> float | None:
        """Share of the hidden tests that the last submission passed; None without tests."""
        return self._share if self._cases else None


class CodeSuite:
    """All problems of one seed."""

    def __init__(self, seed: int = 0) -> None:
        self.name = f"{NAME}-{seed}"
        self._splits = {
            Split.TRAIN: self._build(Split.TRAIN, TRAIN_TASKS),
            Split.HELD_OUT: self._build(Split.HELD_OUT, HELD_OUT_TASKS),
        }
        self._by_id = {task.id: task for tasks in self._splits.values() for task in tasks}

    def tasks(self, split: Split) -> Sequence[Task]:
        """All tasks of a split; held-out ones are worded as no train task is."""
        return self._splits.get(split, ())

    def task(self, task_id: str) -> Task:
        """One task by id."""
        return self._by_id[task_id]

    def reset(self, task: Task) -> CodeSession:
        """A fresh attempt."""
        return CodeSession(task, task.text)

    def live(self, text: str) -> CodeSession:
        """A user's own request: nothing judges it."""
        return CodeSession(None, text)

    def gold(self, task: Task) -> tuple[tuple[str, Mapping[str, Any]], ...]:
        """The call that solves a task with reward 1."""
        return (("submit", {"code": task.payload["solution"]}),)

    def _build(self, split: Split, count: int) -> tuple[Task, ...]:
        rng = random.Random(f"{self.name}-{split.value}")
        return tuple(self._task(rng, split, FAMILIES[index % len(FAMILIES)], index) for index in range(count))

    def _task(self, rng: random.Random, split: Split, family: Family, index: int) -> Task:
        k = rng.randint(1, LARGEST)
        asked = family.asked[-1] if split is Split.HELD_OUT else rng.choice(family.asked[:-1])
        solution = family.solution.replace("{k}", str(k))
        cases = _cases(rng, family, solution)
        examples = "; ".join(
            f"solve({json.dumps(c['inputs'][0])}) == {json.dumps(c['expected'])}" for c in cases[:SHOWN]
        )
        text = f"Write solve(x): {asked.format(k=k)}. Examples: {examples}"
        payload = {"family": family.name, "solution": solution, "cases": cases}
        return Task(f"{self.name}/{split.value}/{index:04d}", self.name, split, text, payload)


def _cases(rng: random.Random, family: Family, solution: str) -> list[dict[str, Any]]:
    scope: dict[str, Any] = {}
    exec(solution, scope)  # noqa: S102 - our own source, from `problems`
    drawn = [family.inputs(rng) for _ in range(SHOWN + HIDDEN)]
    return [{"inputs": inputs, "expected": scope["solve"](*inputs)} for inputs in drawn]


def _right(answer: Answer, case: Mapping[str, Any]) -> bool:
    same_kind = type(answer.value) is type(case["expected"])
    return answer.failure is None and same_kind and bool(answer.value == case["expected"])


def _told(case: Mapping[str, Any], answer: Answer, right: bool) -> str:
    if right:
        return "passed"
    found = answer.failure if answer.failure is not None else json.dumps(answer.value)
    return f"error: solve({json.dumps(case['inputs'][0])}) gave {found}, not {json.dumps(case['expected'])}"
