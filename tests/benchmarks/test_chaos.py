"""The drills, short: real gateways, real databases, real kills."""

import random
from pathlib import Path

import pytest

from benchmarks.chaos.feedback import feedback_drill
from benchmarks.chaos.setting import Setting
from benchmarks.chaos.starts import starts_drill
from benchmarks.chaos.twins import twins_drill
from tests.postgres_server import running_postgres


def setting(folder: Path, url: str | None = None, seconds: float = 5.0) -> Setting:
    return Setting(folder, url or f"sqlite:///{folder / 'ledger.sqlite3'}", "test", seconds, 16, random.Random(1))


@pytest.mark.slow
def test_acknowledged_feedback_survives_kill_9_once(tmp_path: Path) -> None:
    figures = feedback_drill(setting(tmp_path), kill=True)
    assert figures["kills"] >= 1
    assert figures["feedback_acknowledged"] > 0
    assert figures["feedback_stored"] == figures["feedback_acknowledged"]
    assert figures["feedback_doubled"] == figures["feedback_refused"] == 0


@pytest.mark.slow
def test_twins_have_one_effect_and_a_fresh_reply_can_be_judged_at_once(tmp_path: Path) -> None:
    figures = twins_drill(setting(tmp_path))
    assert figures == {"twin_replies": 1, "changed_refused": 1, "unknown_ids": 0, "twin_rows": 1}


@pytest.mark.slow
def test_five_gateways_start_at_once_on_postgresql(tmp_path: Path) -> None:
    with running_postgres() as server:
        figures = starts_drill(setting(tmp_path, server.new_database()))
    assert figures["ready_on_empty"] == figures["ready_on_existing"] == 5
    assert figures["revisions"] == figures["operator_keys"] == figures["first_deployments"] == 1
