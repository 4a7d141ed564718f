"""Where a rollback goes."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bank.deployment import Deployment
from service.way_back import keep_loaded, way_back


def _history(flips: str) -> tuple[Deployment, ...]:
    rows = [
        Deployment(number + 1, name, flips[number - 1] if number else None, "", "", datetime.now(UTC))
        for number, name in enumerate(flips)
    ]
    return tuple(reversed(rows))


@pytest.mark.parametrize(
    ("flips", "target"),
    [
        ("", None),
        ("b", None),
        ("b1", "b"),
        ("b12", "1"),
        ("b121", "b"),
        ("b1b", None),
        ("b1b1", "b"),
        ("b123", "2"),
        ("b1232", "1"),
        ("b12321", "b"),
        ("b1213", "1"),
    ],
)
def test_way_back_forgets_what_was_rolled_back(flips, target):
    assert way_back(_history(flips)) == target


def test_current_previous_and_the_way_back_stay_loaded():
    assert keep_loaded(()) == frozenset()
    assert keep_loaded(_history("b1232")) == {"2", "3", "1"}
