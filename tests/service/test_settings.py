"""Bad configuration ends the start and names the setting."""

from __future__ import annotations

import pytest

from service.settings import Settings, SettingsError, read_settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RATCHET_PORT", "70000"),
        ("RATCHET_PORT", "http"),
        ("RATCHET_ENGINE", "gpt"),
        ("RATCHET_SUCCESS_THRESHOLD", "1.5"),
        ("RATCHET_SUCCESS_THRESHOLD", "nan"),
        ("RATCHET_MAX_RUNS", "0"),
        ("RATCHET_SUITE", " "),
        ("RATCHET_SUITE", "no_such_suite"),
        ("RATCHET_MODEL", "no_such_model"),
        ("RATCHET_TRUSTED_ROLE", "everybody"),
        ("RATCHET_PROBE_TOLERANCE", "-1"),
    ],
)
def test_bad_setting_is_named(monkeypatch, name, value):
    monkeypatch.setenv(name, value)

    with pytest.raises(SettingsError, match=name):
        read_settings()


def test_several_bad_settings_are_all_named(monkeypatch):
    monkeypatch.setenv("RATCHET_PORT", "0")
    monkeypatch.setenv("RATCHET_MAX_RUNS", "x")

    with pytest.raises(SettingsError, match=r"(?s)RATCHET_PORT.*RATCHET_MAX_RUNS|RATCHET_MAX_RUNS.*RATCHET_PORT"):
        read_settings()


def test_remote_engines_model_need_not_be_on_this_disk(monkeypatch):
    monkeypatch.setenv("RATCHET_ENGINE", "scripted")
    monkeypatch.setenv("RATCHET_MODEL", "Qwen/Qwen3-4B")

    assert read_settings().model == "Qwen/Qwen3-4B"


def test_ledger_lies_in_the_data_folder_unless_it_is_named(tmp_path):
    assert Settings(data=tmp_path).ledger == f"sqlite:///{tmp_path / 'ledger.sqlite3'}"
    assert Settings(data=tmp_path, ledger_url="sqlite:////elsewhere/l.db").ledger == "sqlite:////elsewhere/l.db"
    assert Settings(broker_url="redis://r").embedded is False
