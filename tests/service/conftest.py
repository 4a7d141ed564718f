"""A real service for every test: SQLite in a temporary folder, a scripted engine, requests through ASGI."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
import structlog
from fastapi import FastAPI

from agents.adapter import CONFIG, MANIFEST, WEIGHTS, Manifest, Probe
from agents.engine import GenerateRequest, Sampling
from agents.scripted import ScriptedEngine
from agents.suites import open_suite
from bank.api_key import ApiKey, KeyRole
from bank.checkpoint import Checkpoint, CheckpointStatus
from bank.episode import Split
from bank.ledger.ledger import Ledger
from service.app import create_app
from service.auth import secret_hash
from service.jobs import MemoryJobs
from service.logs import configure_logs
from service.server import Server
from service.settings import Settings

OPERATOR, USER, STRANGER = "rk_operator", "rk_user", "rk_stranger"
KEYS = {OPERATOR: KeyRole.OPERATOR, USER: KeyRole.USER, STRANGER: KeyRole.USER}
BASE_DIGEST = "0" * 64
SUITE = "order_desk:0"
PROBE_TASK = "order_desk-0/train/0000"


@dataclass(frozen=True)
class Service:
    """A running service and what stands behind it."""

    app: FastAPI
    ledger: Ledger
    jobs: MemoryJobs
    client: httpx.AsyncClient
    """With an operator's key."""

    @property
    def state(self):
        return self.app.state.ratchet

    def read(self, work):
        with self.ledger.read() as books:
            return work(books)

    def write(self, work):
        with self.ledger.write() as books:
            return work(books)

    def episodes(self):
        return self.read(lambda books: books.episodes.latest(1000))


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture(autouse=True, scope="session")
def logs():
    """As the process that serves has them."""
    configure_logs()
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def fresh_ledger(tmp_path_factory) -> Path:
    """A migrated ledger with a key of each role; copied, because migrating takes longer than most tests."""
    path = tmp_path_factory.mktemp("ledger") / "ledger.sqlite3"
    ledger = Ledger.open(f"sqlite:///{path}")
    with ledger.write() as books:
        for secret, role in KEYS.items():
            books.keys.add(ApiKey(f"key_{secret}", role, secret_hash(secret), "", datetime.now(UTC)))
    ledger.close()
    return path


@pytest.fixture
def build(tmp_path: Path, fresh_ledger: Path) -> Callable[..., tuple[FastAPI, Settings, Ledger, MemoryJobs]]:
    """An application on this test's folder; called again it is the same installation after a restart."""

    def make(engine=None, engines=None, jobs=None, **settings):
        path = tmp_path / "ledger.sqlite3"
        if not path.exists():
            shutil.copy(fresh_ledger, path)
        chosen = Settings(data=tmp_path, **{"reconcile_seconds": 3600.0, "drain_seconds": 0.0, **settings})
        ledger, jobs = Ledger.open(f"sqlite:///{path}"), jobs or MemoryJobs()
        replicas = engines or {"local": engine or ScriptedEngine(lambda _: "done")}
        return create_app(chosen, ledger=ledger, engines=replicas, jobs=jobs), chosen, ledger, jobs

    return make


@pytest.fixture
def serve(build) -> Callable[..., object]:
    """Start a service without a network: `async with serve(engine, max_runs=1) as service`."""

    @asynccontextmanager
    async def start(engine=None, engines=None, **settings) -> AsyncIterator[Service]:
        app, _, ledger, jobs = build(engine, engines, **settings)
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        try:
            async with app.router.lifespan_context(app), _client(transport, "http://ratchet") as client:
                yield Service(app, ledger, jobs, client)
        finally:
            ledger.close()

    return start


@pytest.fixture
def listen(build) -> Callable[..., object]:
    """Start a service on a port of its own: `async with listen(engine) as (service, server)`."""

    @asynccontextmanager
    async def start(engine=None, **settings) -> AsyncIterator[tuple[Service, Server]]:
        app, chosen, ledger, jobs = build(engine, **settings)
        server = Server(app, chosen)
        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            running = asyncio.create_task(server.serve([listening]))
            try:
                while not server.started and not running.done():  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                url = f"http://127.0.0.1:{listening.getsockname()[1]}"
                async with _client(httpx.AsyncHTTPTransport(), url) as client:
                    yield Service(app, ledger, jobs, client), server
            finally:
                server.should_exit = True
                await running
                ledger.close()

    return start


def _client(transport: httpx.AsyncBaseTransport, url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=transport, base_url=url, headers=bearer(OPERATOR), timeout=120.0)


@pytest.fixture
def keys() -> dict[str, dict[str, str]]:
    """Headers by role."""
    return {"operator": bearer(OPERATOR), "user": bearer(USER), "stranger": bearer(STRANGER)}


@pytest.fixture
def hermes() -> Callable[..., str]:
    """A tool call as the model writes it."""

    def call(name: str, **arguments: object) -> str:
        return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"

    return call


@pytest.fixture
def gold(hermes) -> Callable[[Split, int], tuple[str, list[str]]]:
    """A task's id and the script that solves it."""

    def solve(split: Split = Split.TRAIN, index: int = 0) -> tuple[str, list[str]]:
        suite = open_suite(SUITE)
        task = suite.tasks(split)[index]
        return task.id, [*(hermes(name, **arguments) for name, arguments in suite.gold(task)), "done"]

    return solve


@pytest.fixture
def publish(tmp_path: Path) -> Callable[..., object]:
    """Write an adapter folder whose probe is what `engine` answers, and register it."""

    async def write(service: Service, engine: ScriptedEngine, label: str, **options) -> str:
        probe = await _probe(engine, options.get("shift", 0.0), options.get("base_shift", -1.0))
        manifest = _manifest(label, probe, options.get("base_digest", BASE_DIGEST)).model_dump_json().encode()
        digest = hashlib.sha256(manifest).hexdigest()
        folder = tmp_path / "adapters" / f"student-{label}-{digest[:12]}"
        folder.mkdir(parents=True)
        for name, content in {**FILES, MANIFEST: manifest}.items():
            (folder / name).write_bytes(content)
        status, parent = options.get("status", CheckpointStatus.CANDIDATE), options.get("parent", "base")
        row = Checkpoint(folder.name, digest, str(folder), status, datetime.now(UTC), parent=parent)
        service.write(lambda books: books.checkpoints.add(row))
        return folder.name

    return write


FILES = {CONFIG: b'{"r": 1}', WEIGHTS: b"weights"}


async def _probe(engine: ScriptedEngine, shift: float, base_shift: float) -> Probe:
    suite = open_suite(SUITE)
    session = suite.reset(suite.task(PROBE_TASK))
    answer = await engine.generate(
        GenerateRequest("base", tuple(session.opening), session.tools, Sampling(temperature=0.0))
    )
    return Probe(
        task_id=PROBE_TASK,
        prompt_ids=answer.prompt_ids,
        sampled_ids=answer.sampled_ids,
        logprobs=tuple(value + shift for value in answer.logprobs),
        base_logprobs=tuple(value + base_shift for value in answer.logprobs),
    )


def _manifest(label: str, probe: Probe, base_digest: str) -> Manifest:
    return Manifest(
        round_id=label,
        parent="base",
        base_digest=base_digest,
        template_digest="t",
        rank=1,
        alpha=1.0,
        target_modules=("q_proj",),
        files={name: hashlib.sha256(content).hexdigest() for name, content in FILES.items()},
        probe=probe,
        method="test",
        seed=0,
    )
