"""Column types: how a value becomes a column, exactly, or is refused.

All are portable. Text and JSON refuse NUL and lone surrogates (PostgreSQL can't hold the first, UTF-8 not the second)
and JSON refuses non-finite numbers, so what was written always reads back equal.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from sqlalchemy import JSON, BigInteger, DateTime, Dialect, Float, Integer, LargeBinary, String, Text, TypeDecorator

from bank.ledger.errors import InvalidRecord

MAX_TOKEN_ID = 2**31 - 1


def serial() -> BigInteger:
    """Type of a key that the database counts up."""
    return BigInteger().with_variant(Integer(), "sqlite")


class ExactText(TypeDecorator[str]):
    """Text of any length that every database and UTF-8 can hold."""

    impl: type[String] = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Refuse what can't be stored."""
        del dialect
        return value if value is None else checked_text(value)


class Name(ExactText):
    """Short text that is looked up by equality: ids, slots, digests."""

    impl = String
    cache_ok = True


class Moment(TypeDecorator[datetime]):
    """A point in time; aware in, UTC out, microseconds kept."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """Refuse naive times: they would mean another moment on another machine."""
        del dialect
        if value is not None and value.tzinfo is None:
            raise InvalidRecord(f"the time {value.isoformat()} has no time zone")
        return value if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        """SQLite gives naive UTC back."""
        del dialect
        return value if value is None else value.replace(tzinfo=value.tzinfo or UTC).astimezone(UTC)


class Choice(TypeDecorator[StrEnum]):
    """One member of a string enum, stored as its value."""

    impl = String(32)
    cache_ok = True

    def __init__(self, choices: type[StrEnum]) -> None:
        super().__init__()
        self.choices = choices

    def process_bind_param(self, value: StrEnum | None, dialect: Dialect) -> str | None:
        """Refuse strings that are no member."""
        del dialect
        return value if value is None else self.choices(value).value

    def process_result_value(self, value: str | None, dialect: Dialect) -> StrEnum | None:
        """The member."""
        del dialect
        return value if value is None else self.choices(value)


class ExactJson(TypeDecorator[Any]):
    """JSON whose strings and numbers read back equal; None is SQL NULL."""

    impl = JSON(none_as_null=True)
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        """Refuse what would come back as something else."""
        del dialect
        return checked_json(value, "value")


class Fraction(TypeDecorator[float]):
    """A reward or rating in [0, 1]."""

    impl = Float(53)
    cache_ok = True

    def process_bind_param(self, value: float | None, dialect: Dialect) -> float | None:
        """Refuse NaN, infinities, booleans, strings and anything outside."""
        del dialect
        return value if value is None else checked_fraction(value)


class TokenIds(TypeDecorator[tuple[int, ...]]):
    """Token ids as little-endian 32-bit integers."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Iterable[int] | None, dialect: Dialect) -> bytes:
        """Pack; refuse ids that no vocabulary has."""
        del dialect
        ids = tuple(value or ())
        if any(isinstance(i, bool) or not isinstance(i, int) or not 0 <= i <= MAX_TOKEN_ID for i in ids):
            raise InvalidRecord(f"token ids must be integers between 0 and {MAX_TOKEN_ID}")
        return struct.pack(f"<{len(ids)}i", *ids)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> tuple[int, ...]:
        """Unpack."""
        del dialect
        packed = value or b""
        return struct.unpack(f"<{len(packed) // 4}i", packed)


class LogProbs(TypeDecorator[tuple[float, ...]]):
    """Log-probabilities as little-endian doubles, bit for bit."""

    impl = LargeBinary
    cache_ok = True

    def process_bind_param(self, value: Iterable[float] | None, dialect: Dialect) -> bytes:
        """Pack; refuse NaN and infinities, which no sampled token has."""
        del dialect
        numbers = tuple(value or ())
        if any(isinstance(x, bool) or not isinstance(x, (int, float)) or not math.isfinite(x) for x in numbers):
            raise InvalidRecord("log-probabilities must be finite numbers")
        return struct.pack(f"<{len(numbers)}d", *numbers)

    def process_result_value(self, value: bytes | None, dialect: Dialect) -> tuple[float, ...]:
        """Unpack."""
        del dialect
        packed = value or b""
        return struct.unpack(f"<{len(packed) // 8}d", packed)


def checked_text(value: str) -> str:
    """The same text. Raises `InvalidRecord` for NUL, lone surrogates and what is no text."""
    if not isinstance(value, str):
        raise InvalidRecord(f"expected text, got {type(value).__name__}")
    if "\0" in value:
        raise InvalidRecord(f"text with a NUL character at position {value.index(chr(0))} can't be stored")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidRecord(f"text with a lone surrogate at position {error.start} can't be stored") from error
    return value


def checked_fraction(value: float) -> float:
    """The same number as a float. Raises `InvalidRecord` unless it is a finite number in [0, 1]."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0.0 <= value <= 1.0:
        raise InvalidRecord(f"expected a number between 0 and 1, got {value!r}")
    return float(value)


def checked_json(value: Any, path: str) -> Any:
    """The same value with plain dicts and lists. Raises `InvalidRecord` naming the path of what can't be stored."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _checked_string(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidRecord(f"{path} is {value}, which JSON can't hold")
        return value
    if isinstance(value, Mapping):
        return {_checked_string(key, path): checked_json(item, f"{path}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [checked_json(item, f"{path}[{index}]") for index, item in enumerate(value)]
    raise InvalidRecord(f"{path} is a {type(value).__name__}, which JSON can't hold")


def _checked_string(value: str, path: str) -> str:
    try:
        return checked_text(value)
    except InvalidRecord as error:
        raise InvalidRecord(f"{path!r}: {error}") from error
