"""Many rows in one statement."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Dialect, Table

MOST_VALUES = 900
"""In one statement; old SQLite takes 999."""
Binders = tuple[tuple[str, Callable[[Any], Any] | None], ...]
"""Columns, and how each turns a value into the driver's."""


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all name the same columns. Raises what the database refuses; the transaction has to end then.

    Plain SQL with all rows in one VALUES: row by row, SQLite's driver hands over the interpreter and PostgreSQL's sends a message
    for each, and what SQLAlchemy makes of many rows costs half as much again.
    """
    if not rows:
        return
    binders = _binders(table, connection.dialect, tuple(rows[0]))
    values = [[row[name] if bind is None else bind(row[name]) for name, bind in binders] for row in rows]
    step = MOST_VALUES // len(binders)
    for chunk in (values[at : at + step] for at in range(0, len(values), step)):
        sql = _sql(table.name, tuple(rows[0]), len(chunk), connection.dialect.paramstyle)
        connection.exec_driver_sql(sql, tuple(value for row in chunk for value in row))


@cache
def _binders(table: Table, dialect: Dialect, names: tuple[str, ...]) -> Binders:
    return tuple((name, table.c[name].type.dialect_impl(dialect).bind_processor(dialect)) for name in names)


@cache
def _sql(table: str, names: tuple[str, ...], count: int, paramstyle: str) -> str:
    row = f"({', '.join(['?' if paramstyle == 'qmark' else '%s'] * len(names))})"
    return f"INSERT INTO {table} ({', '.join(names)}) VALUES {', '.join([row] * count)}"  # noqa: S608 - names of our tables
