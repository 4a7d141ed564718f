"""Opens a suite of tasks by its spec, "<suite>" or "<suite>:<seed>"."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from agents.environment import Environment
from agents.worlds.code import suite as code
from agents.worlds.code.suite import CodeSuite
from agents.worlds.order_desk import suite as order_desk
from agents.worlds.order_desk.house import PRETRAINING_SEEDS
from agents.worlds.order_desk.suite import OrderDeskSuite

SUITES: Mapping[str, Callable[[int], Environment]] = {order_desk.NAME: OrderDeskSuite, code.NAME: CodeSuite}


def open_suite(spec: str) -> Environment:
    """The suite that `spec` names, e.g. "order_desk:7". Raises ValueError that lists what exists."""
    name, _, seed = spec.partition(":")
    if name not in SUITES:
        raise ValueError(f"unknown suite {name!r}; suites: {', '.join(SUITES)}")
    if seed and not (seed.isascii() and seed.isdigit() and int(seed) < PRETRAINING_SEEDS):
        raise ValueError(f"suite {spec!r}: the seed must be a whole number below {PRETRAINING_SEEDS}")
    return SUITES[name](int(seed or 0))
