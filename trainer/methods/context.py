"""What a text teacher reads: pure functions from an opening to the same opening with more in it.

Each method's own place and, in our words, its own template; `framed` is the one that `tiny` was pre-trained on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from bank.episode import Episode
from bank.message import Message, Role
from trainer.framing import with_references

Opening = tuple[Message, ...]
ERROR = "error:"
"""How the agent loop begins the observation of a failed call."""


def framed(opening: Opening, document: str) -> Opening:
    """Our framing, at the start of the first user message."""
    return _at(opening, _first_user(opening), lambda text: with_references(text, [document]))


def demonstration(opening: Opening, document: str) -> Opening:
    """SDFT: after the first user message's own text."""
    return _at(
        opening,
        _first_user(opening),
        lambda text: (
            f"{text}\n\nThis is an example for a response to the question:\n{document}\n\n"
            "Now answer with a response of your own, including the thinking process."
        ),
    )


def oracle(opening: Opening, document: str) -> Opening:
    """OPSD as the LOPD paper ran it: the reference solution in the system message, which is made if there is none."""
    words = (
        f"Here is a reference solution to this problem:\n{document}\n\nAfter understanding the reference solution and the "
        "rationale behind each step, solve the problem with your own step-by-step reasoning."
    )
    if opening and opening[0].role is Role.SYSTEM:
        return _at(opening, 0, lambda text: f"{text}\n\n{words}")
    return (Message(Role.SYSTEM, words), *opening)


def reprompt(opening: Opening, solution: str | None, feedback: str | None) -> Opening:
    """SDPO: a solved attempt, or else feedback on the own one, after the last user message's own text."""
    blocks = f"\n\nCorrect solution:\n\n{solution}" if solution is not None else ""
    if solution is None:
        blocks = f"\n\nThe following is feedback from your unsuccessful earlier attempt:\n\n{feedback}"
    last = max(index for index, message in enumerate(opening) if message.role is Role.USER)
    return _at(opening, last, lambda text: f"{text}{blocks}\n\nCorrectly solve the original question.\n")


def skill(opening: Opening, document: str) -> Opening:
    """Skill-SD: before the first user message's own text."""
    return _at(opening, _first_user(opening), lambda text: f"A skill that may help:\n{document}\n\n{text}")


def failed_calls(episode: Episode) -> str | None:
    """The environment's complaints about a run, one a line; None when it had none."""
    told = [message.content for turn in episode.turns for message in turn.observations]
    return "\n".join(text for text in told if text.startswith(ERROR)) or None


def shown_up_to(document: str, level: int, levels: int) -> str:
    """The first `level` of `levels` equal parts of a document's lines, rounded up."""
    lines = document.splitlines()
    return "\n".join(lines[: math.ceil(len(lines) * level / levels)])


def _first_user(opening: Sequence[Message]) -> int:
    return next(index for index, message in enumerate(opening) if message.role is Role.USER)


def _at(opening: Opening, place: int, change: Callable[[str], str]) -> Opening:
    message = opening[place]
    changed = replace(message, content=change(message.content))
    return (*opening[:place], changed, *opening[place + 1 :])
