from __future__ import annotations

import json

import pytest
from pydantic import ValidationError

from trainer.settings import Promote, Settings, SettingsRefused, read_settings


def test_environment_is_read(monkeypatch, tmp_path):
    monkeypatch.setenv("RATCHET_DATA", str(tmp_path))
    monkeypatch.setenv("RATCHET_PROMOTE", "manual")
    monkeypatch.setenv("RATCHET_ROUND", json.dumps({"steps": 3}))
    settings = Settings()
    assert settings.ledger == f"sqlite:///{tmp_path}/ledger.sqlite3"
    assert settings.promote is Promote.MANUAL
    assert settings.embedded
    assert settings.round_config({}).steps == 3
    assert settings.round_config({"steps": 4}).steps == 4


def test_data_folder_is_absolute():
    assert Settings(data="somewhere").data.is_absolute()


@pytest.mark.parametrize("schedule", ["", "0 2 * * *", "  0  2 * *  mon-fri ", "*/5 * * * *"])
def test_cron_expressions_are_accepted(schedule):
    assert Settings(schedule=schedule).schedule == " ".join(schedule.split())


@pytest.mark.parametrize("schedule", ["daily", "61 2 * * *", "0 2 * *", "0 2 * * * *", "@daily"])
def test_other_schedules_are_refused(schedule):
    with pytest.raises(ValidationError, match="schedule"):
        Settings(schedule=schedule)


def test_unreadable_round_overrides_are_refused_at_start():
    with pytest.raises(ValidationError, match="stepz"):
        Settings(round={"stepz": 1})


def test_a_message_must_not_come_again_while_its_round_runs():
    with pytest.raises(ValidationError, match="RATCHET_BROKER_VISIBILITY_SECONDS"):
        Settings(round_seconds=3600, broker_visibility_seconds=3600)


def test_a_broker_wants_a_ledger_that_several_machines_can_share():
    with pytest.raises(ValidationError, match="RATCHET_LEDGER_URL"):
        Settings(broker_url="redis://somewhere/0")


def test_a_refused_environment_names_the_setting_in_one_line(monkeypatch):
    monkeypatch.setenv("RATCHET_MAX_ATTEMPTS", "0")
    with pytest.raises(SettingsRefused, match=r"^RATCHET_MAX_ATTEMPTS: [^\n]*$"):
        read_settings()
