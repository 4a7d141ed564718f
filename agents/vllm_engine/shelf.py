"""Shelf: the versions on one server, by its direct address. Names and folders are immutable; nothing is loaded in place."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path

from agents.adapter import MANIFEST, AdapterRef, AdapterRefused, file_digest
from agents.admission import admit
from agents.engine import EngineFault, LoadRefused, Unavailable, UnknownVersion
from agents.vllm_engine.model import ServedModel
from agents.vllm_engine.schemas import Card, Cards
from agents.vllm_engine.wire import Refused, Wire

BASE = "base"
"""Our name of the version without an adapter, whatever the server calls it."""


class Shelf:
    """Loads, unloads and lists; each name one change at a time."""

    def __init__(self, wire: Wire, model: ServedModel) -> None:
        self._wire = wire
        self._model = model
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._digests: dict[tuple[str, str], str] = {}
        """By name and folder; a folder never changes."""
        self._base: Card | None = None
        self._asked: Counter[str] = Counter()
        """Requests of this process on their way, by version."""
        self._leaving: dict[str, asyncio.Event] = {}
        """Set when the last of them has ended."""

    async def base(self) -> Card:
        """The server's entry of the base model. Raises `EngineFault`."""
        if self._base is None:
            await self.cards()
        if self._base is None:
            raise EngineFault(f"{self._wire.url} lists no base model")
        return self._base

    async def cards(self) -> dict[str, Card]:
        """Loaded versions by name, without the base. Raises `EngineFault`."""
        try:
            found = Cards.model_validate_json(await self._wire.get("/v1/models")).data
        except ValueError as error:
            raise EngineFault(f"{self._wire.url} is no vLLM server: {error}") from error
        self._base = next((card for card in found if card.parent is None), None)
        return {card.id: card for card in found if card.parent is not None}

    async def versions(self) -> Mapping[str, str]:
        """Name to digest, the base included; a version whose folder can't be read from here has the digest ""."""
        try:
            cards = await self.cards()
        except Unavailable:
            self._base = None
            raise
        known = {name: await asyncio.to_thread(self._digest, card) for name, card in cards.items()}
        return {BASE: self._model.identity.base_digest, **known} if self._base else known

    async def load(self, adapter: AdapterRef) -> None:
        """Make a version resident. Raises `LoadRefused`, or another `EngineFault` when that could not be found out."""
        base = await self.base()
        if adapter.name in (BASE, base.id) or not adapter.path.is_absolute():
            raise LoadRefused(f"{adapter.name} at {adapter.path}: neither a free name nor an absolute folder")
        async with self._locks[adapter.name]:
            try:
                await asyncio.to_thread(admit, adapter, self._model.identity, self._model.max_rank)
            except AdapterRefused as error:
                raise LoadRefused(str(error)) from error
            if not await self._holds(adapter):
                await self._post_load(adapter)
            self._digests[adapter.name, str(adapter.path)] = adapter.digest

    async def unload(self, name: str) -> None:
        """Forget a version once this process's requests for it have ended. Unknown names are ignored; the base stays."""
        if name in (BASE, (await self.base()).id):
            return
        async with self._locks[name]:
            quiet = self._leaving[name] = asyncio.Event()
            try:
                if self._asked[name]:
                    await quiet.wait()
                await self._wire.post("/v1/unload_lora_adapter", {"lora_name": name})
            except Refused as error:
                if error.status != HTTPStatus.NOT_FOUND:
                    raise
            finally:
                del self._leaving[name]

    @contextmanager
    def asking(self, version: str) -> Iterator[None]:
        """Around a request: the version is not unloaded by this process before it ends. Raises `UnknownVersion`."""
        if version in self._leaving:
            raise UnknownVersion(f"{version} is being unloaded")
        self._asked[version] += 1
        try:
            yield
        finally:
            self._asked[version] -= 1
            if not self._asked[version]:
                del self._asked[version]
                if version in self._leaving:
                    self._leaving[version].set()

    async def served_name(self, version: str) -> str:
        """What the server calls a version. Raises `UnknownVersion` for names that it would answer with the base."""
        base = await self.base()
        if version == BASE:
            return base.id
        if not version or version == base.id:
            raise UnknownVersion(f"{version!r} names no version")
        return version

    async def _holds(self, adapter: AdapterRef) -> bool:
        card = (await self.cards()).get(adapter.name)
        if card is None:
            return False
        if card.root != str(adapter.path) or await asyncio.to_thread(self._digest, card) != adapter.digest:
            raise LoadRefused(f"{adapter.name} is loaded from {card.root}, a name is never given other weights")
        return True

    async def _post_load(self, adapter: AdapterRef) -> None:
        body = {"lora_name": adapter.name, "lora_path": str(adapter.path), "load_inplace": False}
        try:
            await self._wire.post("/v1/load_lora_adapter", body)
        except Refused as error:
            # Another process may have loaded it between our look and our request.
            if error.status != HTTPStatus.BAD_REQUEST or not await self._holds(adapter):
                raise LoadRefused(f"{adapter.name}: {error}") from error

    def _digest(self, card: Card) -> str:
        """Of a version that this process may not have loaded itself."""
        place = card.id, card.root or ""
        manifest = Path(place[1]) / MANIFEST
        if place not in self._digests and place[1] and manifest.is_file():
            self._digests[place] = file_digest(manifest)
        return self._digests.get(place, "")
