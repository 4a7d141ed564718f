"""ApiKey: who is asking. Only the hash of the secret is ever stored."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class KeyRole(StrEnum):
    """What a key may do; an operator may do all that a user may."""

    USER = "user"
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class ApiKey:
    """One key."""

    id: str
    role: KeyRole
    hash: str
    """sha256 of the secret, hex."""
    label: str
    created_at: datetime
    revoked_at: datetime | None = None
