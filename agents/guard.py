"""RepeatGuard: notices an agent that goes round in circles."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bank.message import Message, ToolCall

LONGEST_CYCLE = 4

Round = tuple[tuple[str, str, str], ...]
"""(tool, arguments, result) of each call in one reply."""


class RepeatGuard:
    """Counts identical rounds and repetitions of short cycles of rounds.

    The result is part of a round, so polling something that changes is no repetition. Fewer than two
    `repeats` switch the guard off.
    """

    def __init__(self, repeats: int) -> None:
        self._repeats = repeats
        self._rounds: list[Round] = []

    def caught(self, calls: Sequence[ToolCall], observations: Sequence[Message]) -> bool:
        """Add one round; True when the last `repeats` rounds, or cycles of rounds, were the same."""
        pairs = zip(calls, observations, strict=True)
        self._rounds.append(tuple((call.name, _canonical(call.arguments), seen.content) for call, seen in pairs))
        return self._repeats > 1 and any(self._cycles(length) for length in range(1, LONGEST_CYCLE + 1))

    def _cycles(self, length: int) -> bool:
        tail = self._rounds[-length * self._repeats :]
        return len(tail) == length * self._repeats and tail == tail[:length] * self._repeats


def _canonical(arguments: str) -> str:
    """The same for JSON texts that differ only in white space and key order."""
    try:
        return json.dumps(json.loads(arguments), sort_keys=True)
    except (ValueError, RecursionError):
        return arguments
