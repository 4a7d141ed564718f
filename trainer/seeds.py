"""One seed for every draw, so that a resumed round repeats exactly what it would have done."""

from __future__ import annotations

import hashlib

SEED_BITS = 31


def derive_seed(*parts: int | str) -> int:
    """A seed in [0, 2^31) that depends on every part and on their order."""
    text = "\x1f".join(str(part) for part in parts)
    digest = hashlib.sha256(text.encode()).digest()
    return int.from_bytes(digest[:8], "big") >> (64 - SEED_BITS)
