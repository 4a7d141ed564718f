"""Opening, migrating, and many writers at once."""

import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, inspect, text

from bank.ledger.errors import LedgerUnusable, SchemaTooNew, SlotTaken
from bank.ledger.ledger import Books, Bulk, Ledger
from bank.ledger.outcome import Outcome
from bank.ledger.schema import METADATA
from tests.bank.records import NOW, episode

WRITERS = 50
EACH = 4
PROCESSES = 4
DATABASES = 3

OPEN_AND_WRITE = """
import sys
from bank.ledger.ledger import Ledger
from tests.bank.records import NOW
print("ready", flush=True)
sys.stdin.readline()
for url in sys.argv[2:]:
    ledger = Ledger.open(url)
    with ledger.write() as books:
        books.audit.add(sys.argv[1], "opened", "", {}, NOW)
    ledger.close()
"""


def processes(source: str, urls: Sequence[str], count: int) -> list[str]:
    """Run `count` processes that start working when everyone is ready; their standard errors."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", source, str(number), *urls],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(count)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return [process.communicate(timeout=120)[1] for process in started]


def test_several_processes_open_one_empty_database_at_once(new_url: Callable[[], str]):
    urls = [new_url() for _ in range(DATABASES)]
    assert processes(OPEN_AND_WRITE, urls, PROCESSES) == [""] * PROCESSES
    for url in urls:
        ledger = Ledger.open(url)
        with ledger.read() as books:
            lines = books.audit.latest(100)
        ledger.close()
        assert sorted(line.actor for line in lines) == [str(process) for process in range(PROCESSES)]


def test_fifty_writers_at_once_never_meet_a_locked_database(ledger: Ledger):
    def read_then_write(writer: int) -> None:
        for turn in range(EACH):
            with ledger.write() as books:
                before = books.episodes.count()
                books.episodes.add(episode(writer * EACH + turn))
                assert books.episodes.count() == before + 1

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(read_then_write, range(WRITERS)))
    with ledger.read() as books:
        assert books.episodes.count() == WRITERS * EACH


def test_a_reader_keeps_its_view_while_a_writer_commits(ledger: Ledger):
    with ledger.read() as old:
        assert old.episodes.count() == 0
        with ledger.write() as books:
            books.episodes.add(episode())
        assert old.episodes.count() == 0
    with ledger.read() as books:
        assert books.episodes.count() == 1


def test_a_transaction_that_raises_leaves_nothing(ledger: Ledger):
    def twice() -> None:
        with ledger.write() as books:
            books.audit.add("somebody", "did", "something", {}, NOW)
            books.episodes.add(episode())
            books.episodes.add(episode())

    with pytest.raises(SlotTaken):
        twice()
    with ledger.read() as books:
        assert books.episodes.count() == 0
        assert books.audit.latest(10) == ()


def test_shared_transaction_undoes_what_raises_and_keeps_the_rest(ledger: Ledger):
    def note(actor: str, *, then_fail: bool) -> Callable[[Books], str]:
        def work(books: Books) -> str:
            books.audit.add(actor, "did", "something", {}, NOW)
            books.episodes.add(episode())  # the second time: SlotTaken
            if then_fail:
                raise LookupError(actor)
            return actor

        return work

    outcomes = ledger.write_all([note("a", then_fail=True), note("b", then_fail=False), note("c", then_fail=False)])
    assert [outcome.value for outcome in outcomes] == [None, "b", None]
    assert [type(outcome.error) for outcome in outcomes] == [LookupError, type(None), SlotTaken]
    (seen,) = ledger.read_all([lambda books: [line.actor for line in books.audit.latest(10)]])
    assert seen.value == ["b"]


def test_parts_of_one_kind_are_done_together_and_apart_when_one_is_refused(ledger: Ledger):
    calls: list[tuple[str, ...]] = []

    def note_all(books: Books, actors: Sequence[str]) -> list[Outcome]:
        calls.append(tuple(actors))
        for actor in actors:
            books.audit.add(actor, "did", "something", {}, NOW)
        if "late" in actors:
            raise SlotTaken("late")
        return [Outcome(actor.upper()) for actor in actors]

    def alone(books: Books) -> str:
        books.audit.add("alone", "did", "something", {}, NOW)
        return "alone"

    together = ledger.write_all([Bulk(note_all, "a"), Bulk(note_all, "b")])
    assert [outcome.value for outcome in together] == ["A", "B"]
    assert calls == [("a", "b")]
    mixed = ledger.write_all([Bulk(note_all, "c"), alone, Bulk(note_all, "late")])
    assert [outcome.value for outcome in mixed] == ["C", "alone", None]
    assert isinstance(mixed[2].error, SlotTaken)
    only = ledger.write_all([Bulk(note_all, "late"), Bulk(note_all, "d")])
    assert [outcome.value for outcome in only] == [None, "D"]
    with ledger.read() as books:
        assert sorted(line.actor for line in books.audit.latest(10)) == ["a", "alone", "b", "c", "d"]


def test_fault_that_is_no_refusal_is_everybodys(ledger: Ledger):
    calls: list[int] = []

    def broken(_: Books, parts: Sequence[int]) -> list[Outcome]:
        calls.append(len(parts))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.write_all([Bulk(broken, 1), Bulk(broken, 2)])
    outcomes = ledger.write_all([Bulk(broken, 1), Bulk(broken, 2), lambda books: books.audit.latest(1)])
    assert [type(outcome.error) for outcome in outcomes] == [ZeroDivisionError, ZeroDivisionError, type(None)]
    assert calls == [2, 2]


def test_what_was_committed_is_there_after_opening_again(url: str):
    first = Ledger.open(url)
    with first.write() as books:
        books.episodes.add(episode())
    first.close()
    second = Ledger.open(url)
    with second.read() as books:
        assert books.episodes.get("ep_1") == episode()
    second.close()


@pytest.mark.usefixtures("ledger")
def test_migrations_build_exactly_the_tables_that_the_code_uses(url: str):
    engine = create_engine(url)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        assert compare_metadata(context, METADATA) == []
    engine.dispose()


def test_the_newest_migration_can_be_undone(ledger: Ledger, url: str):
    ledger.close()
    config = Config()
    config.set_main_option("script_location", "bank:migrations")
    config.set_main_option("path_separator", "os")
    engine = create_engine(url)
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
        tables = inspect(connection).get_table_names()
    engine.dispose()
    assert tables == ["alembic_version"]


def test_a_database_written_by_a_newer_program_is_refused_and_left_alone(ledger: Ledger, url: str):
    ledger.close()
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(SchemaTooNew, match=r"schema 9999.*newer Ratchet wrote it"):
        Ledger.open(url)
    with engine.connect() as connection:
        assert connection.execute(text("select version_num from alembic_version")).scalar_one() == "9999"
    engine.dispose()


def test_another_kind_of_database_is_refused_without_showing_its_password():
    with pytest.raises(LedgerUnusable, match="sqlite:/// or postgresql://") as refusal:
        Ledger.open("mysql://ratchet:geheim@db/ratchet")
    assert "geheim" not in str(refusal.value)
