"""IndexUnusable: the index can't be opened."""

from __future__ import annotations


class IndexUnusable(RuntimeError):
    """Its folder is in use, its server does not do what the index needs, or it holds vectors of another kind."""
