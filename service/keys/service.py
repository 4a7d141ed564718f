"""KeyRing: makes and revokes keys, and sees to it that an installation is never without an operator's."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from bank.api_key import ApiKey, KeyRole
from bank.ids import new_id
from bank.ledger.ledger import Books
from service.auth import Caller, new_secret, secret_hash
from service.books import BooksAsync
from service.errors import ServiceError

OPERATOR_KEY_FILE = "operator.key"
PRIVATE = 0o600
SERVICE = "service"


class KeyRing:
    """The rules of keys."""

    def __init__(self, books: BooksAsync) -> None:
        self._books = books

    async def make(self, role: KeyRole, label: str, actor: str) -> tuple[ApiKey, str]:
        """The stored key and its secret."""
        secret, now = new_secret(), datetime.now(UTC)
        key = ApiKey(new_id("key"), role, secret_hash(secret), label, now)

        def write(books: Books) -> None:
            books.keys.add(key)
            books.audit.add(actor, "key.made", key.id, {"role": role.value, "label": label}, now)

        await self._books.write(write)
        return key, secret

    async def revoke(self, key_id: str, caller: Caller) -> None:
        """End a key. Raises `ServiceError` 404, and 409 for the last operator's."""
        now = datetime.now(UTC)

        def write(books: Books) -> None:
            key = books.keys.get(key_id)
            if key is None:
                raise ServiceError(404, "unknown_key", "there is no such key")
            if key.revoked_at is not None:
                return
            if key.role is KeyRole.OPERATOR and books.keys.count(KeyRole.OPERATOR) == 1:
                raise ServiceError(409, "last_operator", "this is the only operator's key; make another first")
            books.keys.revoke(key_id, now)
            books.audit.add(caller.id, "key.revoked", key_id, {}, now)

        await self._books.write(write)

    async def first_operator(self, folder: Path | None) -> None:
        """On the first start: make an operator's key, print it once, and leave it in `folder` if there is one."""
        if await self._books.read(lambda books: books.keys.count(KeyRole.OPERATOR)):
            return
        _, secret = await self.make(KeyRole.OPERATOR, "first start", SERVICE)
        if folder is not None:
            _write_private(folder / OPERATOR_KEY_FILE, secret)
        sys.stdout.write(f"operator key (shown once): {secret}\n")
        sys.stdout.flush()


def _write_private(path: Path, secret: str) -> None:
    """Readable by the owner from its first byte on, whatever was there before."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{secret}\n")
