"""Ledger: opens the database, and is the only place that begins and commits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from sqlalchemy import URL, Connection, Engine, make_url
from sqlalchemy.exc import OperationalError

from bank.ledger import postgres, sqlite
from bank.ledger.audit import Audit
from bank.ledger.checkpoints import Checkpoints
from bank.ledger.conversations import Conversations
from bank.ledger.deployments import Deployments
from bank.ledger.episodes import Episodes
from bank.ledger.errors import LedgerError, LedgerUnusable
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


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Bulk(Generic[T]):
    """One caller's part of work that the ledger does for many callers with the same few statements."""

    run: Callable[[Books, Sequence[T]], Sequence[Outcome]]
    """Does all parts, in their order. A refusal is an outcome that wrote nothing. When it raises, nothing of any part is
    kept; after a `LedgerError` the parts are done one by one."""
    part: T


Work = Callable[[Books], Any] | Bulk[Any]
"""What shares a transaction with others."""


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

    def write_all(self, works: Sequence[Work]) -> list[Outcome]:
        """Many pieces of work in one writing transaction; one that raises is undone alone, and its error is its outcome.

        Everything else is durable when this returns, or nothing is and this raises.
        """
        if len(_alike(works)) == 1:  # what has the transaction for itself needs no savepoint: its error ends it
            try:
                with self._writer.begin() as connection:
                    return _done(Books.on(connection), works)
            except LedgerError:
                if len(works) == 1:
                    raise
        with self._writer.begin() as connection:
            return _each(connection, works)

    def read_all(self, works: Sequence[Work]) -> list[Outcome]:
        """Many pieces of work on one view of the ledger."""
        with self._reader.begin() as connection:
            return _each(connection, works) if len(works) > 1 else _done(Books.on(connection), works)

    def close(self) -> None:
        """Give every idle connection back to the system."""
        self._reader.dispose()


def _each(connection: Connection, works: Sequence[Work]) -> list[Outcome]:
    books = Books.on(connection)
    outcomes: dict[int, Outcome] = {}
    for places in _alike(works):
        outcomes.update(zip(places, _one(connection, books, [works[place] for place in places]), strict=True))
    return [outcomes[place] for place in range(len(works))]


def _alike(works: Sequence[Work]) -> list[list[int]]:
    """Places of the pieces that can be done together."""
    found: dict[Any, list[int]] = {}
    for place, work in enumerate(works):
        found.setdefault(work.run if isinstance(work, Bulk) else place, []).append(place)
    return list(found.values())


def _one(connection: Connection, books: Books, works: Sequence[Work]) -> list[Outcome]:
    """Pieces that are alike, together; or one by one, when the ledger refuses one of them."""
    try:
        with connection.begin_nested():
            return _done(books, works)
    except Exception as error:  # noqa: BLE001 - not handled here: handed to those who asked for this work
        if len(works) == 1 or not isinstance(error, LedgerError):
            return [Outcome(error=error)] * len(works)
    return [outcome for work in works for outcome in _one(connection, books, [work])]


def _done(books: Books, works: Sequence[Work]) -> list[Outcome]:
    first = works[0]
    if not isinstance(first, Bulk):
        return [Outcome(first(books))]
    return list(first.run(books, [work.part for work in works if isinstance(work, Bulk)]))


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
