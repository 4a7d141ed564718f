from __future__ import annotations

import pytest
from celery.schedules import crontab

from trainer.settings import Settings
from trainer.tasks import (
    RELAY,
    RELAY_QUEUE,
    RESUME_ROUNDS,
    ROUNDS_QUEUE,
    RUN_ROUND,
    SCHEDULE_ROUND,
    beat_schedule,
    build_app,
    register,
)


class RecordingJobs:
    def __init__(self):
        self.done = []

    def run_rounds(self):
        self.done.append("run_rounds")

    def relay(self):
        self.done.append("relay")

    def schedule_round(self):
        self.done.append("schedule_round")


@pytest.mark.parametrize(
    ("task", "arguments", "job"),
    [
        (RUN_ROUND, ("rd_1",), "run_rounds"),
        (RESUME_ROUNDS, (), "run_rounds"),
        (RELAY, (), "relay"),
        (SCHEDULE_ROUND, (), "schedule_round"),
    ],
)
def test_a_task_is_one_job(tmp_path, task, arguments, job):
    app, jobs = build_app(Settings(data=tmp_path)), RecordingJobs()
    register(app, jobs)
    app.tasks[task](*arguments)
    assert jobs.done == [job]


def test_polls_expire_before_they_pile_up():
    entries = beat_schedule(Settings(poll_seconds=4.0))
    assert set(entries) == {RELAY, RESUME_ROUNDS}
    assert [entry["options"]["expires"] for entry in entries.values()] == [4.0, 4.0]
    assert {name: entry["options"]["queue"] for name, entry in entries.items()} == {
        RELAY: RELAY_QUEUE,
        RESUME_ROUNDS: ROUNDS_QUEUE,
    }


def test_the_night_is_on_the_clock_only_when_it_is_set():
    entry = beat_schedule(Settings(schedule="30 2 * * 1"))[SCHEDULE_ROUND]
    assert entry["schedule"] == crontab(minute="30", hour="2", day_of_week="1")
    assert SCHEDULE_ROUND not in beat_schedule(Settings())


def test_a_broker_of_ones_own_is_taken_as_it_is(tmp_path):
    ledger = "postgresql://somewhere/ratchet"
    app = build_app(Settings(data=tmp_path / "data", broker_url="redis://somewhere/0", ledger_url=ledger))
    assert app.conf.broker_url == "redis://somewhere/0"
    assert not (tmp_path / "data").exists()
    assert not app.conf.task_acks_late
    assert app.conf.broker_transport_options == {"visibility_timeout": 43_200}
