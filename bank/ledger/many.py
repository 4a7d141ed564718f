"""Many rows in one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Insert, Table, bindparam, func, insert, select
from sqlalchemy.dialects.postgresql import ARRAY


def insert_rows(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows that all name the same columns. Raises what the database refuses; the transaction has to end then.

    PostgreSQL gets one array a column: its driver would send every row as a statement of its own, which costs twice the time.
    """
    if not rows:
        return
    names = tuple(rows[0])
    if connection.dialect.name == "postgresql":
        arrays = {name: [row[name] for row in rows] for name in names}
        connection.execute(_from_arrays(table, names), arrays)
    else:
        connection.execute(_row_by_row(table), list(rows))


@cache
def _row_by_row(table: Table) -> Insert:
    return insert(table)


@cache
def _from_arrays(table: Table, names: tuple[str, ...]) -> Insert:
    arrays = [bindparam(name, type_=ARRAY(table.c[name].type)) for name in names]
    unnested = func.unnest(*arrays).table_valued(*names).render_derived()
    return insert(table).from_select(names, select(*(unnested.c[name] for name in names)))
