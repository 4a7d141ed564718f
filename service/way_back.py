"""The way back: which version a rollback goes to, read from the history of the pointer."""

from __future__ import annotations

from collections.abc import Sequence

from bank.deployment import Deployment


def way_back(history: Sequence[Deployment]) -> str | None:
    """The version that answered before the current one was first promoted; None when there is none.

    `history` is newest first. Going back to a version forgets what came after it, so that after two bad releases
    two rollbacks reach the good one instead of alternating between the bad ones.
    """
    path: list[str] = []
    for flip in reversed(history):
        if flip.current in path:
            del path[path.index(flip.current) :]
        path.append(flip.current)
    return path[-2] if len(path) > 1 else None


def keep_loaded(history: Sequence[Deployment]) -> frozenset[str]:
    """Current version, the one before it in time, and the one that a rollback goes to."""
    if not history:
        return frozenset()
    names = (history[0].current, history[0].previous, way_back(history))
    return frozenset(name for name in names if name is not None)
