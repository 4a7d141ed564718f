"""The words around privileged context, text or latent, at the start of the first user message.

They say: this is how a different, already solved task was handled; nothing has been done yet in
yours. The same framing serves the pre-training of `tiny`, cold start, training and evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable

FRAMING_BEFORE = "Solved before for another customer :\n"
FRAMING_AFTER = "\nNothing is done yet for this one . Your turn :\n"
REFERENCE_SEPARATOR = "\n"


def with_references(task: str, documents: Iterable[str]) -> str:
    """The first user message of a text-conditioned teacher."""
    return f"{FRAMING_BEFORE}{REFERENCE_SEPARATOR.join(documents)}{FRAMING_AFTER}{task}"


def encoder_text(task: str, document: str) -> str:
    """What the composer's encoder reads for one retrieved experience (LOPD app. A.5)."""
    return f"Task to solve:\n{task}\n\nReference past trajectory:\n{document}"
