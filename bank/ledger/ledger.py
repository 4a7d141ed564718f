"""Ledger: opens the database, and is the only place that begins and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import OperationalError

from bank.ledger import postgres, sqlite
from bank.ledger.audit import Audit
from bank.ledger.checkpoints import Checkpoints
from bank.ledger.conversations import Conversations
from bank.ledger.deployments import Deployments
from bank.ledger.episodes import Episodes
from bank.ledger.errors import LedgerUnusable
from bank.ledger.experiences import Experiences
from bank.ledger.feedback import Feedbacks
from bank.ledger.keys import Keys
from bank.ledger.migrate import migrate
from bank.ledger.outcome import Outcome
from bank.ledger.pulses import Pulses
from bank.ledger.rounds import Rounds
from bank.ledger.vitals import VitalSigns

LOCK_SECONDS = 120.0
"""How long opening waits while other processes create or migrate the same database."""


@dataclass(frozen=True, slots=True)
class Books:
    """All repositories, bound to one transaction."""

    episodes: Episodes
    conversations: Conversations
    feedback: Feedbacks
    experiences: Experiences
    rounds: Rounds
    checkpoints: Checkpoints
    deployments: Deployments
    audit: Audit
    keys: Keys
    pulses: Pulses
    vitals: VitalSigns

    @classmethod
    def on(cls, connection: Connection) -> Books:
        """The repositories of the transaction that is open on `connection`."""
        return cls(
            episodes=Episodes(connection),
            conversations=Conversations(connection),
            feedback=Feedbacks(connection),
            experiences=Experiences(connection),
            rounds=Rounds(connection),
            checkpoints=Checkpoints(connection),
            deployments=Deployments(connection),
            audit=Audit(connection),
            keys=Keys(connection),
            pulses=Pulses(connection),
            vitals=VitalSigns(connection),
        )


class Ledger:
    """The product's memory, shared by any number of threads and processes."""

    def __init__(self, reader: Engine, writer: Engine) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    def open(cls, url: str, lock_seconds: float = LOCK_SECONDS, pool_size: int = postgres.POOL_SIZE) -> Ledger:
        """The ledger at a sqlite:/// or postgresql:// URL, created and migrated to the newest schema when necessary.

        Several processes may open the same empty database at once; each waits up to `lock_seconds` for its turn.
        `pool_size` is the most connections that PostgreSQL is asked for; whoever finds none waits for one.
        Raises `SchemaTooNew` when a newer program wrote it, `LedgerUnusable` when it can't give the guarantees that
        the ledger needs.
        """
        address = make_url(url)
        kind = address.get_backend_name()
        if kind not in OPENERS:
            wanted = "a sqlite:/// or postgresql:// URL"
            raise LedgerUnusable(f"the ledger needs {wanted}, got {address.render_as_string()}")
        return cls(*OPENERS[kind](address, lock_seconds, pool_size))

    @contextmanager
    def write(self) -> Iterator[Books]:
        """One writing transaction: committed when the block ends, rolled back when it raises.

        Writers queue up for each other; keep the block short and never open a second one inside it.
        """
        with self._writer.begin() as connection:
            yield Books.on(connection)

    @contextmanager
    def read(self) -> Iterator[Books]:
        """One consistent view of the ledger; never waits for writers."""
        with self._reader.begin() as connection:
            yield Books.on(connection)

    def write_all(self, works: Sequence[Callable[[Books], Any]]) -> list[Outcome]:
        """Many pieces of work in one writing transaction; one that raises is undone alone, and its error is its outcome.

        Everything else is durable when this returns, or nothing is and this raises.
        """
        with self._writer.begin() as connection:
            return _each(connection, works)

    def read_all(self, works: Sequence[Callable[[Books], Any]]) -> list[Outcome]:
        """Many pieces of work on one view of the ledger."""
        with self._reader.begin() as connection:
            return _each(connection, works)

    def close(self) -> None:
        """Give every idle connection back to the system."""
        self._reader.dispose()


def _each(connection: Connection, works: Sequence[Callable[[Books], Any]]) -> list[Outcome]:
    books = Books.on(connection)
    return [_one(connection, books, work) for work in works]


def _one(connection: Connection, books: Books, work: Callable[[Books], Any]) -> Outcome:
    try:
        with connection.begin_nested():
            return Outcome(work(books))
    except Exception as error:  # noqa: BLE001 - not handled here: handed to the one who asked for this work
        return Outcome(error=error)


def _open_sqlite(address: URL, lock_seconds: float, pool_size: int) -> tuple[Engine, Engine]:
    del pool_size  # a connection to a file costs nobody else anything
    engine = sqlite.connect(address)
    writer = sqlite.writing(engine)
    try:
        with sqlite.alone(address, lock_seconds):
            migrate(writer)
    except BaseException:
        engine.dispose()
        raise
    return engine, writer


def _open_postgres(address: URL, lock_seconds: float, pool_size: int) -> tuple[Engine, Engine]:
    engine = postgres.connect(address, pool_size)
    try:
        postgres.check(engine)
        # the writers' lock also lets one process at a time create and migrate
        migrate(postgres.writing(engine, lock_seconds))
    except OperationalError as error:
        engine.dispose()
        raise LedgerUnusable(f"{address.render_as_string()}: {error.orig}") from error
    except BaseException:
        engine.dispose()
        raise
    return engine, postgres.writing(engine)


OPENERS: dict[str, Callable[[URL, float, int], tuple[Engine, Engine]]] = {
    "sqlite": _open_sqlite,
    "postgresql": _open_postgres,
}
