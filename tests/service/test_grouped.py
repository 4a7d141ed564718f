"""Groups: who shares a transaction, and who hears of it when."""

import asyncio
import threading
from collections.abc import Sequence

import pytest

from bank.ledger.ledger import Work
from bank.ledger.outcome import Outcome
from service.grouped import LARGEST, Grouped


class Desk:
    """Runs groups, and lets a test hold the first one up."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.started, self.go = threading.Event(), threading.Event()

    def run(self, works: Sequence[Work]) -> list[Outcome]:
        self.groups.append(len(works))
        self.started.set()
        assert self.go.wait(10)
        return [Outcome(work(None)) for work in works]  # type: ignore[arg-type]


async def started(desk: Desk) -> None:
    assert await asyncio.to_thread(desk.started.wait, 10)


async def test_requests_that_wait_together_share_a_transaction() -> None:
    desk = Desk()
    grouped = Grouped(desk.run, 1)
    first = asyncio.create_task(grouped.ask(lambda _: 0))
    await started(desk)
    others = [asyncio.create_task(grouped.ask(lambda _, i=i: i)) for i in range(1, LARGEST + 3)]
    await asyncio.sleep(0)
    assert not first.done()
    desk.go.set()
    assert await asyncio.gather(first, *others) == list(range(LARGEST + 3))
    assert desk.groups == [1, LARGEST, 2]


async def test_failing_transaction_is_an_error_for_everyone_in_it() -> None:
    def full(_: Sequence[Work]) -> list[Outcome]:
        raise OSError("disk is full")

    grouped = Grouped(full, 1)
    answers = await asyncio.gather(*(grouped.ask(lambda _: 1) for _ in range(3)), return_exceptions=True)
    assert [str(answer) for answer in answers] == ["disk is full"] * 3


async def test_error_of_one_is_heard_by_one() -> None:
    def run(_: Sequence[Work]) -> list[Outcome]:
        return [Outcome(1), Outcome(error=LookupError("mine"))]

    grouped = Grouped(run, 1)
    one, other = await asyncio.gather(*(grouped.ask(lambda _: 1) for _ in range(2)), return_exceptions=True)
    assert one == 1
    assert isinstance(other, LookupError)


async def test_cancelled_caller_leaves_its_neighbours_alone() -> None:
    desk = Desk()
    grouped = Grouped(desk.run, 1)
    one, other = (asyncio.create_task(grouped.ask(lambda _, i=i: i)) for i in range(2))
    await started(desk)
    one.cancel()
    desk.go.set()
    assert await other == 1
    with pytest.raises(asyncio.CancelledError):
        await one


async def test_who_asks_again_right_after_an_answer_is_answered() -> None:
    grouped = Grouped(lambda works: [Outcome(number) for number, _ in enumerate(works)], 1)
    async with asyncio.timeout(10):
        assert [await grouped.ask(lambda _: None) for _ in range(3)] == [0, 0, 0]
