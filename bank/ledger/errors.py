"""What the ledger refuses, as one tree.

LedgerError
    InvalidRecord (ValueError)   a value that can't be stored exactly
    NotFound (LookupError)       no such row
    IdempotencyConflict          same key, other body
    HeldOutRefused               an evaluation task on its way into the bank
    SlotTaken                    the slot, or the name, is in use
    StaleFence                   another worker holds the round, or it is over
    StaleGeneration              the deployment pointer moved in between
    NotPromotable                a rejected checkpoint on its way to users
    SchemaTooNew                 the file was written by a newer Ratchet
    LedgerUnusable               wrong kind of database, no WAL, lock not to be had
"""

from __future__ import annotations

from sqlalchemy.exc import DontWrapMixin


class LedgerError(Exception):
    """Root of everything that the ledger refuses."""


class InvalidRecord(DontWrapMixin, LedgerError, ValueError):
    """The record holds a value that can't be stored exactly; nothing was stored."""


class NotFound(LedgerError, LookupError):
    """No row has this id."""


class IdempotencyConflict(LedgerError):
    """The idempotency key was used before with another body."""


class HeldOutRefused(LedgerError):
    """An episode of a held-out task must never enter the bank."""


class SlotTaken(LedgerError):
    """A round, a candidate or a key exists already where only one may be."""


class StaleFence(LedgerError):
    """The round belongs to a later claim, or is over; the caller must stop writing."""


class StaleGeneration(LedgerError):
    """The deployment pointer is not where the caller saw it."""


class NotPromotable(LedgerError):
    """A rejected checkpoint can't become the one that answers."""


class SchemaTooNew(LedgerError):
    """The database was written by a newer version of this program."""


class LedgerUnusable(LedgerError):
    """The database can't give the guarantees that the ledger needs."""
