"""Settings: where the trainer finds its ledger, queue, model and suite. What a round does is `RoundConfig`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from celery.schedules import crontab
from croniter import croniter
from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from trainer.round_config import RoundConfig, defaults_for, read_config

CRON_FIELDS = 5
PREFIX = "RATCHET_"


class SettingsRefused(Exception):
    """The configuration can't be used; the message names each setting and what is wrong with it."""


class Promote(StrEnum):
    """What happens to a candidate that the gate calls better."""

    AUTO = "auto"
    MANUAL = "manual"


class Settings(BaseSettings):
    """Read from the environment, prefix RATCHET_; refused as a whole when one value is wrong."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    data: Path = Path(".ratchet")
    """Everything this installation writes."""
    ledger_url: str = ""
    """SQLAlchemy URL; empty is SQLite in the data folder."""
    ledger_pool: int = Field(default=8, ge=1)
    """Most connections to a PostgreSQL ledger; every process has its own."""
    broker_url: str = ""
    """Celery broker; empty is a folder queue in the data folder."""
    broker_visibility_seconds: int = Field(default=43_200, ge=1)
    """After so long Redis delivers an unacknowledged message again; the same for all processes, above `round_seconds`."""
    model: str = "tiny"
    """Shipped model name or path of a model folder."""
    suite: str = "order_desk:0"
    embedder: str = "minilm"
    embedder_api_key: str | None = None
    """For an embedder behind HTTP."""
    qdrant_url: str = ""
    """Empty is a local index in the data folder, owned by the one worker process."""
    qdrant_api_key: str | None = None
    qdrant_timeout: int = Field(default=30, ge=1)
    """Seconds that one request to a Qdrant server may take."""
    schedule: str = ""
    """Five-field cron expression (UTC) of the nightly round; empty is off."""
    promote: Promote = Promote.AUTO
    success_threshold: float = Field(default=1.0, ge=0.0, le=1.0)
    """Reward from which an episode counts as a success."""
    round: dict[str, Any] = Field(default_factory=dict)
    """JSON overrides of `RoundConfig`; those of a single round lie above them."""
    lease_seconds: float = Field(default=30.0, gt=0.0)
    """How long a dead worker's round stays unclaimable; a living one renews three times as often."""
    max_attempts: int = Field(default=3, ge=1)
    """Attempts at one round before it is given up; one that was asked to end does not count."""
    retry_seconds: float = Field(default=5.0, ge=0.0)
    """Pause after an attempt that died; doubles with each."""
    round_seconds: float = Field(default=21_600.0, gt=0.0)
    """Hard limit of one attempt; the next goes on from its last step."""
    round_memory_bytes: int | None = Field(default=None, ge=1)
    """Bound on the writable memory of a round's process (RLIMIT_DATA); empty is none."""
    stop_seconds: float = Field(default=4.0, ge=0.0)
    """What a round's process has to end its step when the worker is asked to end."""
    idle_seconds: float = Field(default=60.0, gt=0.0)
    """A worker that took no task for so long is not healthy, and ends itself."""
    worker_name: str = ""
    """Name of this worker in the ledger; empty is the host's."""
    poll_seconds: float = Field(default=3.0, gt=0.0)
    """Period of the relay and of the look for claimable rounds."""

    @field_validator("schedule")
    @classmethod
    def _is_cron(cls, value: str) -> str:
        text = " ".join(value.split())
        if text and (len(text.split(" ")) != CRON_FIELDS or not croniter.is_valid(text)):
            raise ValueError(f"{value!r} is not a five-field cron expression")
        if text:
            crontab.from_string(text)
        return text

    @field_validator("data")
    @classmethod
    def _is_absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @model_validator(mode="after")
    def _round_is_readable(self) -> Settings:
        self.round_config({})
        return self

    @model_validator(mode="after")
    def _fits_a_broker(self) -> Settings:
        if self.broker_visibility_seconds <= self.round_seconds:
            raise ValueError(
                f"RATCHET_BROKER_VISIBILITY_SECONDS ({self.broker_visibility_seconds}) must be above "
                f"RATCHET_ROUND_SECONDS ({self.round_seconds:.0f}), or a long round is delivered twice"
            )
        if self.broker_url and self.ledger.startswith("sqlite"):
            raise ValueError(
                "RATCHET_BROKER_URL is for several processes, and a SQLite ledger serves one machine's; "
                "set RATCHET_LEDGER_URL to a PostgreSQL database"
            )
        return self

    def round_config(self, overrides: Mapping[str, Any]) -> RoundConfig:
        """The model's defaults, this installation's overrides, one round's own. Raises `ConfigRefused`."""
        return read_config(defaults_for(self.model), self.round, overrides)

    @property
    def ledger(self) -> str:
        """The URL that is really opened."""
        return self.ledger_url or f"sqlite:///{self.data / 'ledger.sqlite3'}"

    @property
    def embedded(self) -> bool:
        """Whether one worker process does everything on this machine."""
        return not self.broker_url


def read_settings() -> Settings:
    """Settings of this process's environment. Raises `SettingsRefused`."""
    try:
        return Settings()
    except ValidationError as error:
        raise SettingsRefused("; ".join(_named(problem["loc"], problem["msg"]) for problem in error.errors())) from None


def _named(location: tuple[int | str, ...], message: str) -> str:
    name = ".".join(str(part) for part in location).upper()
    text = message.removeprefix("Value error, ")
    return f"{PREFIX}{name}: {text}" if name else text
