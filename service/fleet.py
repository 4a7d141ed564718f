"""Fleet: the replicas, and the pointer that says which version answers. The only place where "the student" is an alias."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from service.replica import Replica


class NoReplica(Exception):
    """No replica holds the live version; nobody else may answer in its place."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """What the deployment row says, as this process serves it."""

    generation: int
    name: str
    digest: str


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to ask one version on one replica; it keeps the version from being unloaded there."""

    replica: Replica
    version: str
    digest: str


class Fleet:
    """Belongs to one event loop: nothing here awaits, so a pointer change is atomic for every run."""

    def __init__(self, replicas: Sequence[Replica]) -> None:
        self.replicas = tuple(replicas)
        self._pointer: Pointer | None = None

    @property
    def pointer(self) -> Pointer | None:
        """None until the first version was proven."""
        return self._pointer

    def point(self, pointer: Pointer) -> None:
        """From now on new leases are for this version. Older generations are ignored."""
        if self._pointer is None or pointer.generation >= self._pointer.generation:
            self._pointer = pointer

    def ready(self) -> tuple[Replica, ...]:
        """Replicas that hold the live version."""
        pointer = self._pointer
        if pointer is None:
            return ()
        return tuple(replica for replica in self.replicas if replica.holds(pointer.name, pointer.digest))

    @contextmanager
    def lease(self) -> Iterator[Lease]:
        """Read the pointer once, take the least busy replica that holds the version. Raises `NoReplica`."""
        ready, pointer = self.ready(), self._pointer
        if pointer is None or not ready:
            raise NoReplica("no replica holds the live version yet")
        replica = min(ready, key=lambda candidate: candidate.leases.total())
        replica.leases[pointer.name] += 1
        try:
            yield Lease(replica, pointer.name, pointer.digest)
        finally:
            replica.leases[pointer.name] -= 1
