"""The one place that bounds what a tool may put into the context."""

from __future__ import annotations

WHOLE_CHARACTERS = 1_000_000
"""Longest result that is kept at all, outside of any prompt."""


def cap_result(text: str, limit: int) -> str:
    """`text` in at most `limit` characters, ending in a notice of what was left out.

    Cuts between characters. Halves of surrogate pairs and NUL become "?": neither a tokenizer nor the ledger
    could carry them.
    """
    text = text.encode("utf-8", "replace").decode("utf-8").replace("\0", "?")
    if len(text) <= limit:
        return text
    kept = limit
    while kept > 0 and kept + len(_notice(text, kept)) > limit:
        kept -= 1
    return (text[:kept] + _notice(text, kept))[:limit]


def _notice(text: str, kept: int) -> str:
    return f"\n[{len(text) - kept} of {len(text)} characters left out]"
