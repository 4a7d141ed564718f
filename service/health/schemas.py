"""Health over the wire."""

from __future__ import annotations

from service.wire import ReplyBody


class Alive(ReplyBody):
    """The process answers."""

    status: str = "ok"


class Ready(ReplyBody):
    """The live version can answer."""

    status: str = "ready"
    generation: int
    replicas: int
    """How many hold the live version."""
