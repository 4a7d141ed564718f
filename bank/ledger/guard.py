"""Inserts that may meet a row which is there already."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, Insert
from sqlalchemy.exc import IntegrityError


def try_insert(connection: Connection, statement: Insert, values: Mapping[str, Any] | None = None) -> bool:
    """False when a constraint of the table refuses the row; the transaction stays usable.

    The savepoint is what keeps it usable: some databases abort the whole transaction otherwise. Look before inserting
    where the reason of the refusal matters, and use this for the race that a look can't exclude.
    """
    try:
        with connection.begin_nested():
            connection.execute(statement, values)
    except IntegrityError:
        return False
    return True
