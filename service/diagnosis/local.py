"""Checks of this machine."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
from pathlib import Path

from agents.model_folder import model_folder
from service.diagnosis.finding import Finding, fail, ok, warn
from service.diagnosis.ledger_check import ledger_finding
from service.settings import Settings

OLDEST_PYTHON = (3, 11)
TRAINER_PACKAGES = ("torch", "transformers", "peft", "safetensors", "scipy", "matplotlib")
MODEL_FILES = ("config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json")
GIB = 1024**3
LOW_DISK = 2 * GIB
NO_DISK = GIB // 4


def local_findings(settings: Settings) -> list[Finding]:
    """Everything that can be seen without asking the service."""
    return [
        _python(),
        _packages(),
        _data_folder(settings.data),
        _disk(settings.data),
        ledger_finding(settings.ledger),
        _model(settings.model),
        _queue(settings),
        _worker(settings.data),
    ]


def _python() -> Finding:
    version = platform.python_version()
    if sys.version_info < OLDEST_PYTHON:
        return fail("python", version, "install Python 3.11 or newer")
    return ok("python", f"{version} on {platform.machine()}, {os.cpu_count()} cores")


def _packages() -> Finding:
    missing = [name for name in TRAINER_PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        advice = "pip install 'ratchet-agent[trainer]' for the embedded service"
        return warn("packages", f"{', '.join(missing)} not installed", advice)
    return ok("packages", f"{', '.join(TRAINER_PACKAGES)} are installed")


def _data_folder(data: Path) -> Finding:
    place = _existing(data)
    if not os.access(place, os.W_OK | os.X_OK):
        return fail("data folder", f"{place} is not writable", "choose another with RATCHET_DATA or --data")
    return ok("data folder", str(data) if data.is_dir() else f"{data} does not exist yet; ratchet up creates it")


def _disk(data: Path) -> Finding:
    free = shutil.disk_usage(_existing(data)).free
    detail = f"{free / GIB:.1f} GiB free"
    if free < NO_DISK:
        return fail("disk", detail, "free some space: the ledger stops taking writes when the disk is full")
    if free < LOW_DISK:
        return warn("disk", detail, "free some space soon")
    return ok("disk", detail)


def _model(name: str) -> Finding:
    try:
        folder = model_folder(name)
    except (FileNotFoundError, ValueError) as error:
        return fail("model", str(error), "set RATCHET_MODEL to tiny or to a model folder")
    missing = [file for file in MODEL_FILES if not (folder / file).is_file()]
    if missing:
        return fail("model", f"{folder} lacks {', '.join(missing)}", "copy the whole model folder")
    return ok("model", f"{name}: {(folder / MODEL_FILES[1]).stat().st_size / 1e6:.1f} MB of weights")


def _queue(settings: Settings) -> Finding:
    if not settings.embedded:
        return ok("queue", "a broker (RATCHET_BROKER_URL); not looked into from here")
    folder = settings.data / "queue"
    if not folder.is_dir():
        return ok("queue", "no queue folder yet; ratchet up creates it")
    if not os.access(folder, os.W_OK | os.X_OK):
        return fail("queue", f"{folder} is not writable", "give this account the folder")
    return ok("queue", f"{sum(entry.is_file() for entry in folder.rglob('*.msg'))} waiting messages")


def _worker(data: Path) -> Finding:
    path = data / "logs" / "worker.pid"
    pid = path.read_text(encoding="ascii").strip() if path.is_file() else ""
    if pid.isdigit() and _alive(int(pid)):
        return ok("worker", f"process {pid}")
    advice = f"ratchet up starts it; if it should be up, read {data / 'logs' / 'worker.log'}"
    return warn("worker", "no training worker of this data folder is running", advice)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _existing(path: Path) -> Path:
    """The path itself, or its nearest parent that exists."""
    return next(place for place in (path, *path.parents) if place.exists())
