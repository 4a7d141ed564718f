"""Models over the wire, as OpenAI lists them."""

from __future__ import annotations

from typing import Literal

from service.wire import ReplyBody


class Model(ReplyBody):
    """A name that may be asked for."""

    id: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: Literal["ratchet"] = "ratchet"
    version: str | None = None
    """Alias: the version that answers now; null while none is proven."""
    live: bool = False
    """Whether it answers now."""


class ModelList(ReplyBody):
    """All of them."""

    object: Literal["list"] = "list"
    data: list[Model]
