"""IndexDoor: the experience index, opened for as long as it is needed.

Qdrant's local mode serves one process, and relay and round are two: each opens the folder when it has something to
do and waits for its turn. A server takes any number of clients, so its connection stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property

from filelock import FileLock, Timeout

from bank.embedding.choose import open_embedder
from bank.embedding.embedder import Embedder
from bank.index.choose import open_index
from bank.index.index import ExperienceIndex
from bank.index.unusable import IndexUnusable
from trainer.settings import Settings

LOCK = "index.lock"
TURN_SECONDS = 120.0
"""Longest wait for the folder: a relay or a snapshot of many thousand experiences."""


class IndexDoor:
    """One process's way to the index; nothing is loaded before it is first used."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._kept = ExitStack()
        self._server: ExperienceIndex | None = None

    @cached_property
    def embedder(self) -> Embedder:
        """The embedder of the settings."""
        return open_embedder(self._settings.embedder, self._settings.embedder_api_key)

    @contextmanager
    def open(self) -> Iterator[ExperienceIndex]:
        """The index, with nobody else in a local one. Raises `IndexUnusable`."""
        if not self._settings.qdrant_url:
            with self._alone(), ExitStack() as used:
                yield self._opened(used)
            return
        if self._server is None:
            self._server = self._opened(self._kept)
        yield self._server

    def close(self) -> None:
        """Leave a server's connection."""
        self._kept.close()
        self._server = None

    def _opened(self, stack: ExitStack) -> ExperienceIndex:
        settings = self._settings
        where = settings.qdrant_url or settings.data / "index"
        index = open_index(where, settings.qdrant_api_key, self.embedder, settings.qdrant_timeout)
        stack.callback(index.close)
        return index

    @contextmanager
    def _alone(self) -> Iterator[None]:
        self._settings.data.mkdir(parents=True, exist_ok=True)
        try:
            with FileLock(self._settings.data / LOCK, timeout=TURN_SECONDS):
                yield
        except Timeout as error:
            raise IndexUnusable(f"the index in {self._settings.data} was in use for {TURN_SECONDS:.0f} s") from error
