"""`python -m trainer.health`: whether the workers of this name take tasks; for a container's health check.

Exits with 1 when any of their queues was silent for longer than `RATCHET_IDLE_SECONDS`, or none was ever heard of.
"""

from __future__ import annotations

import sys
from datetime import datetime, timedelta

from sqlalchemy.exc import OperationalError

from bank.ledger.errors import LedgerError
from bank.ledger.ledger import Ledger
from bank.pulse import Pulse
from trainer.heart import worker_name
from trainer.lease import utc_now
from trainer.settings import Settings, SettingsRefused, read_settings

SICK = 1


def main() -> int:
    """Print one line, return the exit code."""
    try:
        settings = read_settings()
        silent = silences(_pulses(settings), settings.idle_seconds, utc_now())
    except (SettingsRefused, LedgerError, OperationalError) as error:
        sys.stderr.write(f"ratchet: {error}\n")
        return SICK
    sys.stdout.write(f"{silent or 'all queues are served'}\n")
    return SICK if silent else 0


def silences(pulses: tuple[Pulse, ...], idle_seconds: float, now: datetime) -> str:
    """What is wrong with these pulses, in words; empty when nothing is."""
    if not pulses:
        return "no task was ever taken"
    late = [pulse for pulse in pulses if now - pulse.at > timedelta(seconds=idle_seconds)]
    return ", ".join(f"{pulse.queue}: silent since {pulse.at:%Y-%m-%dT%H:%M:%SZ}" for pulse in late)


def _pulses(settings: Settings) -> tuple[Pulse, ...]:
    ledger = Ledger.open(settings.ledger, pool_size=1)
    try:
        with ledger.read() as books:
            return books.pulses.of_worker(worker_name(settings))
    finally:
        ledger.close()


if __name__ == "__main__":
    sys.exit(main())
