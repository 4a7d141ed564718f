"""Settings: where the service finds its ledger, queue, model and suite, and how much it admits."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from agents.model_folder import model_folder
from agents.suites import open_suite
from agents.toolsets import open_toolbox
from bank.api_key import KeyRole

PREFIX = "RATCHET_"


class SettingsError(Exception):
    """The configuration can't be used; the message names each setting and what is wrong with it."""


class EngineChoice(StrEnum):
    """Which engine answers."""

    LOCAL = "local"
    """In this process, on transformers."""
    SCRIPTED = "scripted"
    """Fixed replies without a model, for trying the surface and for tests."""


class Settings(BaseSettings):
    """Read from the environment, prefix RATCHET_; refused as a whole when one value is wrong."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    data: Path = Path(".ratchet")
    """Everything this installation writes."""
    ledger_url: str = ""
    """SQLAlchemy URL; empty is SQLite in the data folder."""
    ledger_pool: int = Field(default=8, ge=2)
    """Most connections to a PostgreSQL ledger; one is for the writer."""
    broker_url: str = ""
    """Celery broker; empty is a folder queue in the data folder."""
    broker_visibility_seconds: int = Field(default=43_200, ge=1)
    """After so long Redis delivers an unacknowledged message again; the same for all processes."""
    queue_silence_seconds: float = Field(default=60.0, gt=0.0)
    """A queue from which no worker took a task for so long is not healthy."""
    engine: EngineChoice = EngineChoice.LOCAL
    model: str = "tiny"
    """Shipped model name or path of a model folder."""
    suite: str = "order_desk:0"
    """The environment of runs that name none, and of the probe."""
    tools: Path | None = None
    """JSON file of toolsets; its format is in `agents/toolsets.py`."""
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=1, le=65535)
    success_threshold: float = Field(default=1.0, ge=0.0, le=1.0)
    """Reward from which an episode becomes an experience."""
    trusted_role: KeyRole = KeyRole.OPERATOR
    """Least role whose feedback may create experiences."""
    key_seconds: float = Field(default=1.0, ge=0.0)
    """How long a key is believed without asking the ledger: a key that another process revoked works so much longer."""
    max_runs: int = Field(default=256, ge=1)
    """Runs at the same time; more are answered 503 `busy`."""
    max_versions: int = Field(default=8, ge=3)
    """Adapters resident per replica: live, previous and a candidate at least."""
    probe_tolerance: float = Field(default=1e-2, gt=0.0)
    """Largest difference (nats) between a loaded adapter's log-probabilities and the trainer's."""
    load_seconds: float = Field(default=120.0, gt=0.0)
    """Longest load of one version on one replica."""
    reconcile_seconds: float = Field(default=1.0, gt=0.0)
    """Period of the look for approved checkpoints and lost adapters."""
    drain_seconds: float = Field(default=5.0, ge=0.0)
    """How long a stopping service waits for runs before it ends them as cancelled."""
    threads: int | None = Field(default=None, ge=1)
    """Threads of the local engine; empty is the engine's own choice."""

    @field_validator("data")
    @classmethod
    def _is_absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @field_validator("suite")
    @classmethod
    def _suite_exists(cls, value: str) -> str:
        open_suite(value)
        return value

    @property
    def ledger(self) -> str:
        """The URL that is really opened."""
        return self.ledger_url or f"sqlite:///{self.data / 'ledger.sqlite3'}"

    @property
    def embedded(self) -> bool:
        """Whether everything runs on this machine, with nothing to install."""
        return not self.broker_url


def read_settings() -> Settings:
    """Settings of this process's environment, fit for a start. Raises `SettingsError`."""
    try:
        settings = Settings()
        if settings.broker_url and settings.ledger.startswith("sqlite"):
            raise SettingsError(_named(("ledger_url",), "a broker is for several processes; choose PostgreSQL"))
        if settings.engine is EngineChoice.LOCAL:
            model_folder(settings.model)
        _check_tools(settings.tools)
    except ValidationError as error:
        raise SettingsError("; ".join(_named(problem["loc"], problem["msg"]) for problem in error.errors())) from None
    except FileNotFoundError as error:
        raise SettingsError(_named(("model",), str(error))) from None
    return settings


def _check_tools(file: Path | None) -> None:
    try:
        open_toolbox(file, os.environ)
    except ValueError as error:
        raise SettingsError(_named(("tools",), str(error))) from None


def _named(location: tuple[int | str, ...], message: str) -> str:
    return f"{PREFIX}{'.'.join(str(part) for part in location).upper()}: {message}"
