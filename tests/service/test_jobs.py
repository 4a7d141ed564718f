"""The folder queue: a name and an id, readable by any Celery worker."""

from __future__ import annotations

import base64
import json

import pytest

from service.jobs import RUN_ROUND, CeleryJobs, JobsAway


def test_message_carries_the_name_and_the_id(tmp_path):
    jobs = CeleryJobs.connect("", tmp_path)
    jobs.run_round("rnd_1")
    jobs.close()
    (message,) = [json.loads(path.read_text()) for path in (tmp_path / "messages").glob("*.rounds.msg")]
    arguments, _, _ = json.loads(base64.b64decode(message["body"]))

    assert message["headers"]["task"] == RUN_ROUND
    assert arguments == ["rnd_1"]


def test_broker_that_is_away_is_told_apart_from_a_bug(tmp_path):
    jobs = CeleryJobs.connect("amqp://127.0.0.1:1//", tmp_path)

    with pytest.raises(JobsAway):
        jobs.run_round("rnd_1")
    jobs.close()
