"""KeyRing: makes and revokes keys, and sees to it that an installation is never without an operator's."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

from bank.api_key import ApiKey, KeyRole
from bank.ids import new_id
from bank.ledger.ledger import Books
from service.auth import Caller, Callers, new_secret, secret_hash
from service.books import BooksAsync
from service.errors import ServiceError

OPERATOR_KEY_FILE = "operator.key"
PRIVATE = 0o600
SERVICE = "service"


class KeyRing:
    """The rules of keys."""

    def __init__(self, books: BooksAsync, callers: Callers) -> None:
        self._books = books
        self._callers = callers

    async def make(self, role: KeyRole, label: str, actor: str) -> tuple[ApiKey, str]:
        """The stored key and its secret."""
        key, secret = _new(role, label)
        await self._books.write(lambda books: _store(books, key, actor))
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
        self._callers.forget()

    async def first_operator(self, folder: Path | None) -> None:
        """On the first start: make an operator's key, print it once, and leave it in `folder` if there is one.

        Of several processes that start at once, one makes it. The file is there before the key is valid: whoever is
        killed in between leaves a file that the next start replaces, not an installation that nobody can operate.
        """
        key, secret = _new(KeyRole.OPERATOR, "first start")

        def write(books: Books) -> bool:
            if books.keys.count(KeyRole.OPERATOR):
                return False
            if folder is not None:
                _write_private(folder / OPERATOR_KEY_FILE, secret)
            _store(books, key, SERVICE)
            return True

        if await self._books.write(write):
            sys.stdout.write(f"operator key (shown once): {secret}\n")
            sys.stdout.flush()


def _new(role: KeyRole, label: str) -> tuple[ApiKey, str]:
    secret = new_secret()
    return ApiKey(new_id("key"), role, secret_hash(secret), label, datetime.now(UTC)), secret


def _store(books: Books, key: ApiKey, actor: str) -> None:
    books.keys.add(key)
    books.audit.add(actor, "key.made", key.id, {"role": key.role.value, "label": key.label}, key.created_at)


def _write_private(path: Path, secret: str) -> None:
    """Readable by the owner from its first byte on, whatever was there before."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(f"{secret}\n")
