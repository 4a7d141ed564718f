"""Replica: one engine of the fleet, with what it was seen to hold, what was proven of it, and who is using it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from agents.adapter import AdapterRef
from agents.engine import Engine, EngineFault, GenerateRequest, Generation, LoadRefused, UnknownVersion


class Replica:
    """An `Engine` whose versions are trusted only while they are both listed and proven."""

    def __init__(self, name: str, engine: Engine, load_seconds: float) -> None:
        self.name = name
        self.leases: Counter[str] = Counter()
        """Runs in progress by version."""
        self._engine = engine
        self._load_seconds = load_seconds
        self._resident: dict[str, str] = {}
        self._proven: dict[str, str] = {}

    @property
    def resident(self) -> Mapping[str, str]:
        """Versions (name to digest) that the engine listed last."""
        return self._resident

    def holds(self, name: str, digest: str) -> bool:
        """Whether exactly this version may answer here."""
        return self._resident.get(name) == digest and self._proven.get(name) == digest

    def prove(self, name: str, digest: str) -> None:
        """Trust a version until the engine stops listing it."""
        self._proven[name] = digest

    async def generate(self, request: GenerateRequest) -> Generation:
        """One reply. An engine that forgot the version gets no more runs of it until it is loaded and proven again."""
        try:
            return await self._engine.generate(request)
        except UnknownVersion:
            self._resident.pop(request.version, None)
            self._proven.pop(request.version, None)
            raise

    async def load(self, adapter: AdapterRef) -> None:
        """Make a version resident and see it listed. Raises `EngineFault`."""
        try:
            async with asyncio.timeout(self._load_seconds):
                await self._engine.load(adapter)
        except TimeoutError:
            raise EngineFault(f"{self.name} did not load {adapter.name} in {self._load_seconds:g} s") from None
        if (await self.versions()).get(adapter.name) != adapter.digest:
            raise LoadRefused(f"{self.name} does not list {adapter.name} with digest {adapter.digest[:12]}")

    async def unload(self, name: str) -> None:
        """Forget a version; runs that were admitted finish."""
        self._resident.pop(name, None)
        self._proven.pop(name, None)
        await self._engine.unload(name)

    async def versions(self) -> Mapping[str, str]:
        """Ask the engine, and remember the answer. An engine that fails holds nothing."""
        try:
            self._resident = dict(await self._engine.versions())
        except EngineFault:
            self._resident = {}
            raise
        finally:
            listed = self._resident
            self._proven = {name: digest for name, digest in self._proven.items() if listed.get(name) == digest}
        return self._resident

    async def close(self) -> None:
        """Close the engine."""
        await self._engine.close()
