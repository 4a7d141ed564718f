"""Ledger: opens the database, and is the only place that begins and commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import Connection, Engine, make_url

from bank.ledger import sqlite
from bank.ledger.audit import Audit
from bank.ledger.checkpoints import Checkpoints
from bank.ledger.deployments import Deployments
from bank.ledger.episodes import Episodes
from bank.ledger.errors import LedgerUnusable
from bank.ledger.experiences import Experiences
from bank.ledger.feedback import Feedbacks
from bank.ledger.keys import Keys
from bank.ledger.migrate import migrate
from bank.ledger.rounds import Rounds

LOCK_SECONDS = 120.0
"""How long opening waits while other processes create or migrate the same database."""


@dataclass(frozen=True, slots=True)
class Books:
    """All repositories, bound to one transaction."""

    episodes: Episodes
    feedback: Feedbacks
    experiences: Experiences
    rounds: Rounds
    checkpoints: Checkpoints
    deployments: Deployments
    audit: Audit
    keys: Keys

    @classmethod
    def on(cls, connection: Connection) -> Books:
        """The repositories of the transaction that is open on `connection`."""
        return cls(
            episodes=Episodes(connection),
            feedback=Feedbacks(connection),
            experiences=Experiences(connection),
            rounds=Rounds(connection),
            checkpoints=Checkpoints(connection),
            deployments=Deployments(connection),
            audit=Audit(connection),
            keys=Keys(connection),
        )


class Ledger:
    """The product's memory, shared by any number of threads and processes."""

    def __init__(self, engine: Engine) -> None:
        self._reader = engine
        self._writer = sqlite.writing(engine)

    @classmethod
    def open(cls, url: str, lock_seconds: float = LOCK_SECONDS) -> Ledger:
        """The ledger at a SQLAlchemy URL, created and migrated to the newest schema when necessary.

        Several processes may open the same empty database at once; each waits up to `lock_seconds` for its turn.
        Raises `SchemaTooNew` when a newer program wrote it, `LedgerUnusable` when it can't give the guarantees that
        the ledger needs.
        """
        address = make_url(url)
        if address.get_backend_name() != "sqlite":
            raise LedgerUnusable(f"the ledger needs a sqlite:/// URL, got {address.render_as_string()}")
        engine = sqlite.connect(address)
        try:
            with sqlite.alone(address, lock_seconds):
                migrate(sqlite.writing(engine))
        except BaseException:
            engine.dispose()
            raise
        return cls(engine)

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

    def close(self) -> None:
        """Give every idle connection back to the system."""
        self._reader.dispose()
