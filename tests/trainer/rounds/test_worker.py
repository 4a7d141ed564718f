"""A real worker process on a real queue, killed for real."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest
from celery.worker import state

from bank.ledger.ledger import Ledger
from bank.round import RoundStatus
from service.jobs import ROUNDS_QUEUE, RUN_ROUND, CeleryJobs
from trainer.tasks import build_app, register
from trainer.worker import only_worker, stopping

PATIENCE = 900.0
"""Bound of a hang, not an expectation."""

pytestmark = pytest.mark.slow


@contextmanager
def worker(settings, log):
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "RATCHET_DATA": str(settings.data),
        "RATCHET_MODEL": settings.model,
        "RATCHET_EMBEDDER": settings.embedder,
        "RATCHET_ROUND": json.dumps(settings.round),
        "RATCHET_POLL_SECONDS": "1",
        "RATCHET_LEASE_SECONDS": "5",
    }
    with log.open("ab") as file:
        process = subprocess.Popen([sys.executable, "-m", "trainer.worker"], env=environment, stderr=file)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()


def until(condition, process, log):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < end, log.read_text()
        time.sleep(0.2)


def test_a_killed_worker_loses_nothing(settings, fill_bank, queue_round, look, tmp_path):
    settings.data.mkdir()
    ledger, log = Ledger.open(settings.ledger), tmp_path / "worker.log"
    fill_bank(ledger)
    queued = queue_round(ledger, {"steps": 8})

    def status():
        return look(ledger, queued.id)[0].status

    def made():
        return len(look(ledger, queued.id)[1])

    with worker(settings, log) as process:
        CeleryJobs.connect("", settings.data / "queue").run_round(queued.id)
        until(lambda: made() >= 2, process, log)
        process.send_signal(signal.SIGKILL)
        process.wait()
    before, steps, _ = look(ledger, queued.id)
    assert before.status is RoundStatus.RUNNING
    assert len(steps) < 8
    with worker(settings, log) as process:
        until(lambda: status() is not RoundStatus.RUNNING, process, log)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=PATIENCE) == 0
    row, steps, checkpoint = look(ledger, queued.id)
    ledger.close()
    assert (row.status, row.attempts, row.error) == (RoundStatus.COMPLETED, 2, None)
    assert row.snapshot == before.snapshot
    assert [step.step for step in steps] == list(range(1, 9))
    assert [path.name for path in (settings.data / "adapters").iterdir()] == [checkpoint.name]


@pytest.mark.parametrize("flag", ["should_stop", "should_terminate"])
def test_a_round_hears_that_celery_wants_to_end(flag):
    assert not stopping()
    setattr(state, flag, 0)
    try:
        assert stopping()
    finally:
        setattr(state, flag, None)


def test_a_second_worker_is_refused(settings, tmp_path):
    log = tmp_path / "worker.log"
    settings.data.mkdir()
    with only_worker(settings.data), worker(settings, log) as process:
        assert process.wait(timeout=PATIENCE) == 1
    assert "another worker owns" in log.read_text()
    with only_worker(settings.data):
        pass


def test_the_services_task_name_is_known_to_the_worker(settings):
    app = build_app(settings)
    register(app, None)
    assert RUN_ROUND in app.tasks
    assert app.conf.task_routes[RUN_ROUND] == {"queue": ROUNDS_QUEUE}


def test_the_clock_loads_no_torch():
    code = "import sys, trainer.tasks, trainer.worker; print([name for name in ('torch', 'matplotlib') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_whatever_a_worker_of_rounds_imports_no_torch_is_in_it():
    """CUDA can't be initialised where torch was never loaded, and a round's process is started anew, not forked."""
    code = (
        "import sys, trainer.worker, trainer.jobs, trainer.round_watch, trainer.heart\n"
        "print([name for name in ('torch', 'transformers', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
