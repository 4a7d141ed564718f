"""Functions that worker processes import."""

import os
import time
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field


@dataclass
class Address:
    """Where to."""

    city: str


def convert(
    amount: float, unit: Literal["kg", "lb"] = "kg", *, note: Annotated[str, Field(description="Why.")] = ""
) -> str:
    """Convert a weight."""
    return f"{amount:g} {unit} {note}".strip()


def move(address: Address) -> str:
    """Move."""
    return address.city


def pid() -> int:
    """Who answers."""
    return os.getpid()


def block() -> None:
    """Hang."""
    time.sleep(3600)


def nap(seconds: float) -> str:
    """Sleep a while."""
    time.sleep(seconds)
    return "rested"


def long(characters: int) -> str:
    """Much text."""
    return "漢" * characters


def chat(text: str) -> str:
    """Print and answer."""
    print(text)  # noqa: T201 - a tool that prints is the case
    return text


def fail(kind: str) -> None:
    """Raise."""
    raise {"value": ValueError("no"), "key": KeyError("no"), "exit": SystemExit("no"), "quiet": ValueError()}[kind]


def die() -> None:
    """End the process."""
    os._exit(3)


def secrets() -> list[str]:
    """Settings of the service that are visible here."""
    return [name for name in os.environ if name.startswith("RATCHET_")]


def order_tools() -> int:
    """Nothing special."""
    return 1


TOOLS = (convert, move)
