"""Keys over the wire."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from bank.api_key import KeyRole
from service.wire import ReplyBody, RequestBody


class KeyRequest(RequestBody):
    """A key to make."""

    role: Literal["user", "operator"] = "user"
    label: Annotated[str, Field(max_length=200)] = ""


class NewKey(ReplyBody):
    """A fresh key."""

    id: str
    role: KeyRole
    label: str
    key: str
    """The secret; it can't be shown again."""


class RevokedKey(ReplyBody):
    """A key that opens nothing any more."""

    id: str
    revoked: bool = True
