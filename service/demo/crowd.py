"""The crowd: plays requests while a person watches them succeed and the bank fill."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from service.client import Body, RatchetClient
from service.demo.server import Server
from service.demo.traffic import CONCURRENCY, Outcome, Request, play

LINES = 5
"""Progress lines of one act where nothing can be redrawn."""
BANK_SECONDS = 0.5
"""Between two looks at the bank."""


def run_crowd(
    server: Server, requests: Sequence[Request], title: str, console: Console, *, show_bank: bool = False
) -> list[Outcome]:
    """All outcomes, in order, with live progress and, where it fills, the bank's."""
    with Tally(title, len(requests), console) as tally:
        playing = play(server.url, server.key, requests, tally.count, CONCURRENCY)
        return asyncio.run(_watched(playing, server, tally) if show_bank else playing)


def bank_line(bank: Body) -> str:
    """What the bank holds, one line."""
    return (
        f"bank: {bank['episodes']} episodes, {bank['successes']} successes, "
        f"{bank['experiences']} experiences, {bank['indexed']} indexed"
    )


async def _watched(playing: Coroutine[Any, Any, list[Outcome]], server: Server, tally: Tally) -> list[Outcome]:
    watcher = asyncio.create_task(_watch_bank(server, tally))
    try:
        return await playing
    finally:
        watcher.cancel()


async def _watch_bank(server: Server, tally: Tally) -> None:
    with RatchetClient(server.url, server.key) as client:
        while True:
            tally.show_bank(await asyncio.to_thread(client.get, "/v1/bank"))
            await asyncio.sleep(BANK_SECONDS)


class Tally:
    """Counts outcomes on a progress bar, or in a few lines without a terminal."""

    def __init__(self, title: str, total: int, console: Console) -> None:
        self._title, self._total, self._console = title, total, console
        self._done = self._solved = 0
        self._bank = ""
        columns = (
            TextColumn(f"{title:>17}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
        )
        self._bar = Progress(*columns, console=console, disable=not console.is_terminal)
        self._task = self._bar.add_task("", total=total)

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def count(self, outcome: Outcome) -> None:
        """One more outcome."""
        self._done += 1
        self._solved += outcome.success
        self._bar.update(self._task, completed=self._done, description=self._text())
        if (
            not self._console.is_terminal
            and self._done * LINES // self._total > (self._done - 1) * LINES // self._total
        ):
            self._console.print(f"  {self._title}: {self._done}/{self._total} · {self._text()}")

    def show_bank(self, bank: Body) -> None:
        """What the bank holds by now."""
        self._bank = f" · {bank_line(bank)}"

    def _text(self) -> str:
        return f"{self._solved} solved{self._bank}"
