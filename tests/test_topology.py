"""The processes of a deployment on loopback: gateway, worker, two clocks, PostgreSQL, and a Redis that keeps dying."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from agents.suites import open_suite
from bank.episode import Split
from service.client import RatchetClient
from service.demo.server import free_port
from service.demo.traffic import play, requests_over
from tests.postgres_server import running_postgres
from tests.redis_server import RedisServer
from tests.service.waiting import until

SUITE = "order_desk:0"
ROUND = {"steps": 3, "min_experiences": 4, "cold_start": {"steps": 4, "batch": 4}, "gate": {"tasks": 16}}
DEATHS = 5
OVER = ("completed", "failed", "empty", "cancelled")
PATIENCE_SECONDS = 240.0

pytestmark = pytest.mark.slow


@contextmanager
def process(folder: Path, environment: dict[str, str], name: str, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    with (folder / f"{name}.log").open("ab") as log:
        started = subprocess.Popen([sys.executable, "-m", *command], env=environment, stdout=log, stderr=log)
    try:
        yield started
    finally:
        started.send_signal(signal.SIGKILL)
        started.wait()


def test_a_redis_that_loses_everything_costs_no_round_and_doubles_none(tmp_path: Path) -> None:
    redis = RedisServer(free_port(), tmp_path)
    port = free_port()
    with ExitStack() as stack:
        database = stack.enter_context(running_postgres()).new_database()
        redis.start()
        stack.callback(redis.kill)
        environment = {
            **os.environ,
            "RATCHET_DATA": str(tmp_path / "data"),
            "RATCHET_LEDGER_URL": database,
            "RATCHET_BROKER_URL": redis.url,
            "RATCHET_SUITE": SUITE,
            "RATCHET_POLL_SECONDS": "1",
        }
        up = ("service.cli", "up", "--no-worker", "--port", str(port))
        stack.enter_context(process(tmp_path, environment, "api", *up))
        for name, command in (("worker", ()), ("beat-1", ("beat",)), ("beat-2", ("beat",))):
            stack.enter_context(process(tmp_path, environment, name, "trainer.worker", *command))
        key = until(lambda: first_key(tmp_path / "api.log"))
        client = stack.enter_context(RatchetClient(f"http://127.0.0.1:{port}", key))
        requests = requests_over(open_suite(SUITE).tasks(Split.TRAIN), 300, seed=1)
        asyncio.run(play(f"http://127.0.0.1:{port}", key, requests, lambda _: None, 32))
        redis.kill()
        round_id = client.post("/v1/rounds", {"config": ROUND})["id"]  # announced to nobody
        for _ in range(DEATHS - 1):
            redis.start()
            until(lambda: client.get(f"/v1/rounds/{round_id}")["status"] != "queued", PATIENCE_SECONDS)
            redis.kill()
        redis.start()
        until(lambda: client.get(f"/v1/rounds/{round_id}")["status"] in OVER, PATIENCE_SECONDS)
        finished = client.get(f"/v1/rounds/{round_id}")
        rounds = client.get("/v1/rounds")["rounds"]
        trained = [row["name"] for row in client.get("/v1/checkpoints")["checkpoints"] if row["name"] != "base"]
    assert finished["status"] == "completed", finished
    assert finished["attempts"] == 1
    assert [row["id"] for row in rounds] == [round_id]
    assert trained == [finished["candidate"]]


def first_key(log: Path) -> str | None:
    """The operator key that a first start prints once."""
    words = log.read_text().split() if log.exists() else []
    return next((word for word in words if word.startswith("rk_")), None)
