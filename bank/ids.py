"""Ids: short, random, unmistakable about what they name."""

from __future__ import annotations

import secrets

RANDOM_BYTES = 12
"""96 bits: no collision to fear among any number of rows this ledger will hold."""


def new_id(prefix: str) -> str:
    """A fresh id such as `ep_5f1c...`: the prefix, an underscore and 24 hex digits."""
    return f"{prefix}_{secrets.token_hex(RANDOM_BYTES)}"
