"""EnvScaler's scenario format and its runtime rules, for worlds that this project ships itself.

A world is one Python class; a scenario is an initial configuration, a task and a checklist of
`check_func(final_state) -> bool` sources with a global `initial_state`. Reward is the fraction of
checks that return exactly True. Only shipped (trusted) classes run in this process; third-party
worlds belong into a sandboxed worker.
Format: arXiv:2601.05808, https://github.com/RUC-NLPIR/EnvScaler.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

from agents.tools.spec import ToolSpec
from bank.message import Message

REWARD_DIGITS = 4


@dataclass(frozen=True, slots=True)
class World:
    """What all scenarios of a world share."""

    env_id: str
    introduction: str
    """The system message; empty for none."""
    factory: Callable[[dict[str, Any]], Any]
    """The world class."""
    tools: tuple[ToolSpec, ...]


class ScenarioSession:
    """One run of one scenario (`agents.environment.Session`)."""

    def __init__(self, world: World, scenario: Mapping[str, Any], opening: tuple[Message, ...]) -> None:
        self.opening = opening
        self.tools = world.tools
        self._checks: Sequence[str] = [check["check_func"] for check in scenario["checklist_with_func"]]
        self._initial: Mapping[str, Any] = scenario["init_config"]
        self._instance = world.factory(copy.deepcopy(dict(self._initial)))
        self._names = frozenset(tool.name for tool in world.tools)

    def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Observation of one tool call."""
        if name not in self._names:
            raise KeyError(f"no tool {name}")
        return str(getattr(self._instance, name)(**arguments))

    def verify(self) -> float | None:
        """Fraction of checks that hold in the state reached so far; None without a checklist."""
        if not self._checks:
            return None
        state = vars(self._instance)
        passed = sum(_holds(source, state, self._initial) for source in self._checks)
        return round(passed / len(self._checks), REWARD_DIGITS)


def _holds(source: str, final_state: Mapping[str, Any], initial_state: Mapping[str, Any]) -> bool:
    """A check that raises or returns anything but True is false (EnvScaler's rule)."""
    scope: dict[str, Any] = {"initial_state": copy.deepcopy(dict(initial_state))}
    try:
        exec(_compiled(source), scope)  # noqa: S102 - checks of shipped worlds only
        return scope["check_func"](copy.deepcopy(dict(final_state))) is True
    except Exception:  # noqa: BLE001 - a check may raise anything; whatever it is, the check does not hold
        return False


@functools.lru_cache(maxsize=4096)
def _compiled(source: str) -> CodeType:
    return compile(source, "<check_func>", "exec")
