"""The nightly schedule: one round row for each slot, however many clocks tick."""

from __future__ import annotations

from datetime import datetime, timedelta

from croniter import croniter

from bank.ids import new_id
from bank.ledger.errors import SlotTaken
from bank.ledger.ledger import Ledger
from bank.round import Round, RoundStatus

EARLY = timedelta(seconds=1)
"""How far a clock may run ahead and still mean the slot that is about to begin."""


def slot_at(schedule: str, now: datetime) -> str:
    """The latest slot of a cron expression that has begun, to the minute (UTC)."""
    began: datetime = croniter(schedule, now + EARLY).get_prev(datetime)
    return began.strftime("%Y-%m-%dT%H:%M")


def create_round(ledger: Ledger, schedule: str, now: datetime) -> Round | None:
    """The queued round of the current slot, or None when the slot has one already."""
    row = Round(new_id("rd"), slot_at(schedule, now), RoundStatus.QUEUED, now)
    try:
        with ledger.write() as books:
            return books.rounds.create(row)
    except SlotTaken:
        return None
