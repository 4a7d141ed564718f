"""First start: the base is a version like any other, so it gets a checkpoint row and the first position of the pointer."""

from __future__ import annotations

from datetime import UTC, datetime

from agents.model_folder import model_folder
from bank.checkpoint import BASE, Checkpoint, CheckpointStatus
from bank.ledger.errors import SlotTaken, StaleGeneration
from bank.ledger.ledger import Books
from service.books import BooksAsync
from service.fleet import Fleet

SERVICE = "service"
REASON = "first start"


class WrongBase(Exception):
    """The engines serve another base model than the ledger's adapters were trained on."""


async def ensure_base(books: BooksAsync, fleet: Fleet, model: str) -> None:
    """Register the base that the replicas serve, and deploy it if nothing ever was. Raises `WrongBase`."""
    digests = {(await replica.versions()).get(BASE) for replica in fleet.replicas}
    digest = digests.pop()
    if digests or digest is None:
        raise WrongBase("the replicas do not serve one and the same base model")
    now = datetime.now(UTC)
    row = Checkpoint(BASE, digest, _folder(model), CheckpointStatus.LIVE, now)
    try:
        await books.write(lambda transaction: _register(transaction, row))
    except SlotTaken as error:
        raise WrongBase(f"RATCHET_MODEL={model} is not the base of this ledger: {error}") from None
    except StaleGeneration:
        # Another process of the same first start was quicker; its row is the same.
        return


def _register(books: Books, row: Checkpoint) -> None:
    books.checkpoints.add(row)
    if books.deployments.current() is None:
        books.deployments.flip(0, BASE, SERVICE, REASON, row.created_at)
        books.audit.add(SERVICE, "deployment.promote", BASE, {"reason": REASON}, row.created_at)


def _folder(model: str) -> str:
    """Where the base lies; a remote engine's model need not be on this disk."""
    try:
        return str(model_folder(model))
    except FileNotFoundError:
        return model
