"""Families of small functions: what is asked, how it is solved, and where inputs come from."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WORDS = ("amber", "bark", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris", "juniper")


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of problem; `{k}` in its texts is a number that every task draws for itself."""

    name: str
    asked: tuple[str, ...]
    """Phrasings; the last one is for held-out tasks only."""
    solution: str
    """Source of a right answer."""
    inputs: Callable[[random.Random], list[Any]]
    """Arguments of one test."""


def _numbers(rng: random.Random) -> list[Any]:
    return [[rng.randint(-9, 9) for _ in range(rng.randint(1, 7))]]


def _words(rng: random.Random) -> list[Any]:
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(1, 5)))]


def _number(rng: random.Random) -> list[Any]:
    return [rng.randint(0, 999)]


def _family(name: str, inputs: Callable[[random.Random], list[Any]], body: str, *asked: str) -> Family:
    return Family(name, asked, f"def solve(x):\n    return {body}\n", inputs)


FAMILIES = (
    _family("add", _number, "x + {k}", "add {k} to the number x", "the number that is {k} more than x"),
    _family("multiply", _number, "x * {k}", "multiply the number x by {k}", "{k} times the number x"),
    _family("digits", _number, "sum(int(d) for d in str(x)) + {k}", "sum the digits of x and add {k}", "the digit sum of x, plus {k}"),
    _family("above", _numbers, "[n for n in x if n > {k}]", "keep what is greater than {k} in the list x", "the members of x above {k}"),
    _family("total", _numbers, "sum(x) * {k}", "sum the list x and multiply by {k}", "{k} times the total of the list x"),
    _family("spread", _numbers, "max(x) - min(x) + {k}", "largest minus smallest of the list x, plus {k}", "the range of x increased by {k}"),
    _family("rotate", _numbers, "x[{k} % len(x):] + x[:{k} % len(x)]", "rotate the list x left by {k}", "the list x moved {k} places to the left, round the end"),
    _family("repeat", _words, "' '.join(w for w in x.split() for _ in range({k}))", "repeat every word of x {k} times", "each word of the text x written {k} times"),
    _family("long", _words, "[w for w in x.split() if len(w) > {k}]", "the words of x longer than {k} letters", "all words in x with more than {k} letters"),
    _family("cut", _words, "[w[:{k}] for w in x.split()]", "the first {k} letters of every word of x", "every word of x shortened to {k} letters"),
)  # fmt: skip
