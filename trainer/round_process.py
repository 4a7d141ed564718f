"""`python -m trainer.round_process ROUND FENCE`: one claimed round, in a process of its own. Composition root.

Started by `trainer.round_watch` with a pipe as standard input; when the pipe closes, the worker is dead, and this
process ends at once, as killed. SIGTERM lets it end its step. Exits with 0 when the ledger says what became of the round.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import ExitStack

import structlog
from rich.console import Console
from transformers.utils.logging import disable_progress_bar

from agents.model_folder import model_folder
from agents.suites import open_suite
from bank.ledger.ledger import Ledger
from bank.round import Round, RoundStatus
from trainer.index_door import IndexDoor
from trainer.logs import log_to_stderr
from trainer.memory import limit_memory
from trainer.progress import Reporter
from trainer.round import run_round
from trainer.settings import Settings, read_settings
from trainer.workshop import Workshop

ORPHANED = 4

log = structlog.get_logger(__name__)


def main(round_id: str, fence: int) -> int:
    """Run it; returns the exit code."""
    threading.Thread(target=_end_with_the_worker, name="worker's end", daemon=True).start()
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    # Ctrl-C reaches the whole process group: the worker hears it too, and says what is to be done
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    log_to_stderr()
    structlog.contextvars.bind_contextvars(round=round_id)
    disable_progress_bar()
    settings = read_settings()
    limit_memory(settings.round_memory_bytes)
    with ExitStack() as stack:
        shop = open_workshop(settings, stack, asked)
        claimed = _claimed(shop.ledger, round_id, fence)
        if claimed is not None:
            run_round(shop, claimed)
    return 0


def open_workshop(settings: Settings, stack: ExitStack, asked: threading.Event) -> Workshop:
    """Open everything that the round needs; `stack` closes it again."""
    ledger = Ledger.open(settings.ledger, pool_size=settings.ledger_pool)
    stack.callback(ledger.close)
    door = IndexDoor(settings)
    stack.callback(door.close)
    return Workshop(
        settings=settings,
        ledger=ledger,
        open_index=door.open,
        embedder=door.embedder,
        environment=open_suite(settings.suite),
        model=model_folder(settings.model),
        reporter=Reporter(Console(stderr=True)),
        stopping=asked.is_set,
    )


def _claimed(ledger: Ledger, round_id: str, fence: int) -> Round | None:
    """The round, if it is still this claim's."""
    with ledger.read() as books:
        row = books.rounds.get(round_id)
    if row is None or row.fence != fence or row.status not in (RoundStatus.RUNNING, RoundStatus.CANCELLING):
        log.warning("round lost to another worker")
        return None
    return row


def _end_with_the_worker() -> None:
    sys.stdin.buffer.read()
    os._exit(ORPHANED)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2])))
