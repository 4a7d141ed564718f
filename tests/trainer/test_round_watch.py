"""What becomes of a round whose process ends in every way a process can; the processes are real, their work is not."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import timedelta

import psutil
import pytest

from bank.ledger.ledger import Ledger
from bank.round import Round, RoundStatus
from trainer.lease import utc_now
from trainer.round_watch import RoundWatch
from trainer.settings import Settings

FOREVER = "import time; time.sleep(600)"


@pytest.fixture
def settings(tmp_path):
    return Settings(data=tmp_path, poll_seconds=0.1, retry_seconds=100.0, stop_seconds=0.2)


@pytest.fixture
def ledger(settings):
    opened = Ledger.open(settings.ledger)
    with opened.write() as books:
        books.rounds.create(Round("rd", "slot", RoundStatus.QUEUED, utc_now()))
    yield opened
    opened.close()


def run(settings, ledger, code, stopping=lambda: False, beat=lambda: None):
    with ledger.write() as books:
        claimed = books.rounds.claim(utc_now(), 60.0, 3)
    RoundWatch(settings, ledger, stopping, beat, (sys.executable, "-c", code)).run(claimed)
    with ledger.read() as books:
        return books.rounds.get("rd")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "killed by SIGKILL"),
        ("raise SystemExit(7)", "ended with status 7"),
    ],
)
def test_a_process_that_dies_costs_an_attempt_and_a_pause(settings, ledger, code, error):
    row = run(settings, ledger, code)
    assert (row.status, row.attempts) == (RoundStatus.RUNNING, 1)
    assert error in row.error
    assert timedelta(seconds=90) < row.lease_until - utc_now() <= timedelta(seconds=100)


def test_a_process_that_ends_well_has_said_everything(settings, ledger):
    row = run(settings, ledger, "pass")
    assert row.error is None
    assert row.lease_until > utc_now() + timedelta(seconds=30)


def test_a_process_that_takes_too_long_is_killed_and_the_next_attempt_goes_on(settings, ledger):
    row = run(settings.model_copy(update={"round_seconds": 0.3}), ledger, FOREVER)
    assert row.attempts == 1
    assert "RATCHET_ROUND_SECONDS" in row.error


def test_a_process_that_does_not_hear_that_it_should_end_is_killed_and_costs_no_attempt(settings, ledger):
    began = time.monotonic()
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {FOREVER}"
    row = run(settings, ledger, deaf, stopping=lambda: time.monotonic() > began + 1.0)
    assert row.attempts == 0
    assert row.lease_until <= utc_now()


def test_the_queue_is_alive_while_a_round_is_watched(settings, ledger):
    beats = []
    row = run(settings.model_copy(update={"round_seconds": 1.0}), ledger, FOREVER, beat=lambda: beats.append(1))
    assert len(beats) >= 2
    assert row.attempts == 1


def test_another_workers_round_is_left_alone(settings, ledger):
    def steal():
        with ledger.write() as books:
            books.rounds.renew("rd", books.rounds.get("rd").fence, utc_now() - timedelta(seconds=1))
            books.rounds.claim(utc_now(), 60.0, 100)

    row = run(settings, ledger, "import time; time.sleep(1); raise SystemExit(7)", beat=steal)
    assert row.fence > 1
    assert (row.attempts, row.error) == (row.fence, None)


def test_the_rounds_process_ends_with_its_worker():
    """The worker is killed, its end of the pipe closes, and nobody is left to write into the round."""
    code = (
        "import subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import threading, time, trainer.round_process as p; "
        "threading.Thread(target=p._end_with_the_worker, daemon=True).start(); print(1, flush=True); time.sleep(600)'],"
        " stdin=subprocess.PIPE)\n"
        "print(child.pid, flush=True); time.sleep(600)\n"
    )
    worker = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(worker.stdout.readline()))
    assert worker.stdout.readline() == "1\n"
    os.kill(worker.pid, signal.SIGKILL)
    worker.communicate()
    child.wait(timeout=60)
    assert not child.is_running()
