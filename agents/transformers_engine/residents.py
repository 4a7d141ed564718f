"""Which versions are in memory, and how one of them is lent to a forward pass."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass

import torch

from agents.adapter import AdapterRef
from agents.engine import LoadRefused, UnknownVersion
from agents.transformers_engine.backbone import Backbone
from agents.transformers_engine.folder import read_adapter
from agents.transformers_engine.peft_state import add_frozen, remove

BASE = "base"


@dataclass(slots=True, eq=False)
class Resident:
    """One version in memory."""

    version: str
    digest: str
    adapter: str | None
    """Name inside the PEFT model; None is the base itself."""
    owned: bool
    """Loaded here, so deleted here; an adopted adapter belongs to the trainer."""
    serial: int
    mutable: tuple[torch.Tensor, ...] = ()
    """Weights that the trainer may still change in place."""
    leases: int = 0
    """Requests that still need it."""


class Residents:
    """The versions of one backbone. Leases may be taken on any thread; loading and sweeping belong to the worker's."""

    def __init__(self, backbone: Backbone) -> None:
        self._backbone = backbone
        self._lock = threading.Lock()
        self._serial = itertools.count()
        base = Resident(BASE, backbone.base_digest, None, owned=False, serial=next(self._serial))
        self._current = {BASE: base}
        self._leaving: list[Resident] = []

    def versions(self) -> dict[str, str]:
        """Name to digest."""
        with self._lock:
            return {name: resident.digest for name, resident in self._current.items()}

    def lease(self, version: str) -> Resident:
        """The version, kept in memory until released. Raises `UnknownVersion`."""
        with self._lock:
            if version not in self._current:
                raise UnknownVersion(f"{version!r} is not loaded; loaded: {', '.join(sorted(self._current))}")
            resident = self._current[version]
            resident.leases += 1
            return resident

    def release(self, resident: Resident) -> None:
        """End of a lease."""
        with self._lock:
            resident.leases -= 1

    def load(self, ref: AdapterRef) -> None:
        """Verify a published folder and make it resident. Raises `LoadRefused`."""
        known = self.versions().get(ref.name)
        if known == ref.digest:
            return
        if known is not None:
            raise LoadRefused(f"{ref.name} is resident with digest {known[:12]}, not {ref.digest[:12]}")
        config, tensors = read_adapter(ref, self._backbone)
        serial = next(self._serial)
        adapter = f"served_{serial}"
        add_frozen(self._backbone.model, adapter, config, tensors)
        self._put(Resident(ref.name, ref.digest, adapter, owned=True, serial=serial))

    def adopt(self, version: str, adapter: str, digest: str) -> None:
        """Serve an adapter that already lives in the model; adopting a name again replaces it.

        Raises `LoadRefused` for the name of the base or an adapter that is not in the model.
        """
        if version == BASE or adapter not in self._backbone.model.peft_config:
            raise LoadRefused(f"cannot serve adapter {adapter!r} as {version!r}")
        named = self._backbone.model.named_parameters()
        mutable = tuple(weight for name, weight in named if f".{adapter}." in name)
        self._put(Resident(version, digest, adapter, owned=False, serial=next(self._serial), mutable=mutable))

    def forget(self, version: str) -> None:
        """No new leases; unknown names and the base are ignored."""
        with self._lock:
            if version != BASE and version in self._current:
                self._leaving.append(self._current.pop(version))

    def sweep(self) -> None:
        """Delete loaded adapters that were forgotten and that nobody leases any more."""
        with self._lock:
            gone = [resident for resident in self._leaving if resident.leases == 0]
            self._leaving = [resident for resident in self._leaving if resident.leases > 0]
        for resident in gone:
            if resident.owned and resident.adapter is not None:
                remove(self._backbone.model, resident.adapter)

    def owners(self) -> set[tuple[int, int]]:
        """Identities under which cached states are still right."""
        with self._lock:
            current = (*self._current.values(), *self._leaving)
        return {self.identity(resident) for resident in current}

    def identity(self, resident: Resident) -> tuple[int, int]:
        """What cached states of a version depend on: the version, and for the trainer's adapters every write to them."""
        return resident.serial, sum(weight._version for weight in resident.mutable)  # noqa: SLF001

    def _put(self, resident: Resident) -> None:
        self.forget(resident.version)
        with self._lock:
            self._current[resident.version] = resident
