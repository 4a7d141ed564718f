"""`python -m trainer.rebuild`: the experience index made anew from the ledger."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack

from bank.index.unusable import IndexUnusable
from bank.ledger.errors import LedgerError
from bank.ledger.ledger import Ledger
from bank.relay import rebuild
from trainer.index_door import IndexDoor
from trainer.settings import SettingsRefused, read_settings

REFUSED = 1


def main(arguments: Sequence[str] | None = None) -> int:
    """Repair the index, or with --all embed everything anew; prints what was done, returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m trainer.rebuild", description=__doc__)
    parser.add_argument("--all", action="store_true", help="embed every experience anew")
    everything: bool = parser.parse_args(arguments).all
    with ExitStack() as stack:
        try:
            settings = read_settings()
            settings.data.mkdir(parents=True, exist_ok=True)
            ledger = Ledger.open(settings.ledger, pool_size=settings.ledger_pool)
            stack.callback(ledger.close)
            door = IndexDoor(settings)
            stack.callback(door.close)
            index = stack.enter_context(door.open())
        except (IndexUnusable, LedgerError, SettingsRefused) as error:
            sys.stderr.write(f"ratchet: {error}\n")
            return REFUSED
        repaired = rebuild(ledger, index, door.embedder, everything=everything)
        sys.stdout.write(f"{index.count()} experiences in the index, {repaired} written or removed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
