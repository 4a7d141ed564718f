"""`python -m trainer.rebuild`: the experience index made anew from the ledger, and how every process opens the two."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bank.embedding.choose import open_embedder
from bank.embedding.embedder import Embedder
from bank.index.choose import open_index
from bank.index.index import ExperienceIndex
from bank.index.unusable import IndexUnusable
from bank.ledger.errors import LedgerError
from bank.ledger.ledger import Ledger
from bank.relay import rebuild
from trainer.settings import Settings

REFUSED = 1


@dataclass(frozen=True, slots=True)
class OpenBank:
    """The ledger, and what carries its experiences into the index."""

    ledger: Ledger
    index: ExperienceIndex
    embedder: Embedder


def open_bank(settings: Settings, stack: ExitStack) -> OpenBank:
    """All three as the settings say; `stack` closes them. Raises `IndexUnusable` and `LedgerError`."""
    settings.data.mkdir(parents=True, exist_ok=True)
    ledger = Ledger.open(settings.ledger, pool_size=settings.ledger_pool)
    stack.callback(ledger.close)
    embedder = open_embedder(settings.embedder, settings.embedder_api_key)
    where = settings.qdrant_url or settings.data / "index"
    index = open_index(where, settings.qdrant_api_key, embedder, settings.qdrant_timeout)
    stack.callback(index.close)
    return OpenBank(ledger, index, embedder)


def main(arguments: Sequence[str] | None = None) -> int:
    """Repair the index, or with --all embed everything anew; prints what was done, returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.rebuild", description=__doc__)
    parser.add_argument("--all", action="store_true", help="embed every experience anew")
    everything: bool = parser.parse_args(arguments).all
    with ExitStack() as stack:
        try:
            bank = open_bank(Settings(), stack)
        except (IndexUnusable, LedgerError) as error:
            sys.stderr.write(f"ratchet: {error}\n")
            return REFUSED
        repaired = rebuild(bank.ledger, bank.index, bank.embedder, everything=everything)
        sys.stdout.write(f"{bank.index.count()} experiences in the index, {repaired} written or removed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
