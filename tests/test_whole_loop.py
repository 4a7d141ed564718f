"""The whole loop with the shipped base, real processes and real HTTP: serve, remember, distil, judge, swap, kill, roll back."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from agents.suites import open_suite
from bank.episode import Split
from service.client import Body, RatchetClient
from service.demo.server import Server, serving
from service.demo.traffic import play, requests_over

SUITE = "order_desk:0"
ROUND = {"steps": 3, "min_experiences": 4, "cold_start": {"steps": 4, "batch": 4}, "gate": {"tasks": 16}}
PATIENCE_SECONDS = 240.0
STREAMS = 8

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("loop"), SUITE) as running:
        yield running


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[RatchetClient]:
    with RatchetClient(server.url, server.key) as connected:
        yield connected


@pytest.fixture(scope="module")
def candidate(server: Server, client: RatchetClient) -> str:
    """A trained version, from a round whose worker was killed once."""
    requests = requests_over(open_suite(SUITE).tasks(Split.TRAIN), 300, seed=1)
    outcomes = asyncio.run(play(server.url, server.key, requests, lambda _: None, 32))
    assert sum(outcome.success for outcome in outcomes) == client.get("/v1/bank")["experiences"] >= 4
    round_id = client.post("/v1/rounds", {"config": ROUND})["id"]
    until(lambda: client.get(f"/v1/rounds/{round_id}"), lambda body: len(body["steps"]) >= 1)
    os.kill(int((server.data / "logs" / "worker.pid").read_text()), signal.SIGKILL)
    finished = until(lambda: client.get(f"/v1/rounds/{round_id}"), lambda body: body["status"] != "running")
    assert finished["status"] == "completed", finished
    assert [step["step"] for step in finished["steps"]] == [1, 2, 3]
    assert finished["attempts"] == 2
    return str(finished["candidate"])


def until(look: Callable[[], Body], done: Callable[[Body], bool]) -> Body:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not done(body := look()):
        assert time.monotonic() < deadline, body
        time.sleep(0.2)
    return body


def ratchet(server: Server, *arguments: str) -> Body:
    command = [sys.executable, "-m", "service.cli", *arguments, "--json"]
    environment = os.environ | {"RATCHET_URL": server.url, "RATCHET_API_KEY": server.key}
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120).stdout)


def test_killed_worker_finishes_the_same_round_with_one_candidate(
    server: Server, client: RatchetClient, candidate: str
) -> None:
    trained = [row["name"] for row in client.get("/v1/checkpoints")["checkpoints"] if row["name"] != "base"]
    assert trained == [candidate]
    folder = sorted(path.name for path in (server.data / "adapters" / candidate).iterdir())
    assert folder == ["adapter_config.json", "adapter_model.safetensors", "manifest.json"]
    assert client.get(f"/v1/checkpoints/{candidate}")["gate"]["tasks"] == 16


def test_promote_and_roll_back_by_command_line_under_eight_streams(
    server: Server, client: RatchetClient, candidate: str
) -> None:
    over = threading.Event()
    answers: list[Body] = []
    failures: list[BaseException] = []

    def stream() -> None:
        with RatchetClient(server.url, server.key) as mine:
            while not over.is_set():
                try:
                    events = list(mine.stream_run({"task_id": "order_desk-0/train/0001"}))
                except Exception as failure:  # noqa: BLE001 - whatever a client meets is what this test is about
                    failures.append(failure)
                    return
                answers.append({"first": events[0], "last": events[-1]})

    threads = [threading.Thread(target=stream) for _ in range(STREAMS)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            if client.get("/v1/deployment")["current"] != candidate:
                assert ratchet(server, "promote", candidate)["current"] == candidate
            time.sleep(0.5)
            assert ratchet(server, "rollback")["current"] == "base"
            time.sleep(0.5)
    finally:
        over.set()
        for thread in threads:
            thread.join()
    assert failures == []
    assert all(answer["last"][0] == "done" for answer in answers)
    named = [(answer["first"][1]["policy"], answer["last"][1]["policy"]) for answer in answers]
    assert all(first == last for first, last in named)
    assert {last["checkpoint"] for _, last in named} == {"base", candidate}
