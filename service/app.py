"""The composition root of the HTTP service: `create_app`, and what a start and a stop consist of."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from anyio import to_thread
from fastapi import FastAPI

from agents.engine import Engine
from agents.model_folder import model_folder
from agents.scripted import ScriptedEngine
from agents.suites import open_suite
from agents.toolsets import open_toolbox
from bank.ledger.ledger import Ledger
from service import errors
from service.access import Access
from service.audit.endpoints import router as audit
from service.auth import Authenticate, Callers
from service.bank.endpoints import router as bank
from service.body import BodyLimit
from service.books import BooksAsync
from service.chat.endpoints import hot as chat
from service.chat.service import ChatDesk
from service.checkpoints.endpoints import router as checkpoints
from service.deployment.endpoints import router as deployment
from service.feedback.endpoints import hot as verdicts
from service.feedback.endpoints import router as feedback
from service.feedback.service import FeedbackDesk, Trust
from service.first_start import ensure_base
from service.fleet import Fleet
from service.health.endpoints import router as health
from service.jobs import CeleryJobs, Jobs
from service.keys.endpoints import router as keys
from service.keys.service import KeyRing
from service.models.endpoints import router as models
from service.reconciler import Reconciler
from service.replica import Replica
from service.residency import Residency
from service.rounds.endpoints import router as rounds
from service.rounds.service import RoundOffice
from service.runs.endpoints import router as run_routes
from service.runs.service import Rules, Runs
from service.settings import EngineChoice, Settings
from service.state import State
from service.swap import Swap
from service.telemetry import Telemetry
from service.thin import ThinApi
from service.toolsets.endpoints import router as toolsets
from service.worlds import Worlds

ROUTERS = (run_routes, models, toolsets, feedback, rounds, checkpoints, deployment, bank, audit, keys, health)
HOT = (verdicts, chat)
MAX_BATCH = 64


@dataclass(frozen=True, slots=True)
class Given:
    """What the caller of `create_app` brings along, and closes; the rest is opened from the settings."""

    ledger: Ledger | None = None
    engines: Mapping[str, Engine] | None = None
    """Replicas by name."""
    jobs: Jobs | None = None


def create_app(
    settings: Settings,
    *,
    ledger: Ledger | None = None,
    engine: Engine | None = None,
    engines: Mapping[str, Engine] | None = None,
    jobs: Jobs | None = None,
) -> FastAPI:
    """The service. Nothing is opened before its lifespan begins; `engine` is short for `engines` with one replica."""
    given = Given(ledger, {"local": engine} if engine is not None else engines, jobs)
    telemetry = Telemetry()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            app.state.ratchet = await _start(settings, given, telemetry, stack)
            yield

    app = ThinApi(title="Ratchet", version="0.1.0", lifespan=lifespan, redoc_url=None)
    errors.install(app)
    # Added last runs first: id, key, body. A body is not read before its sender is known.
    app.add_middleware(BodyLimit)
    app.add_middleware(Authenticate)
    app.add_middleware(Access, count=telemetry.count_request)
    for router in ROUTERS:
        app.include_router(router)
    for router in HOT:
        app.include_thin(router)
    return app


async def _start(settings: Settings, given: Given, telemetry: Telemetry, stack: AsyncExitStack) -> State:
    settings.data.mkdir(parents=True, exist_ok=True)
    books = await _open_books(settings, given.ledger, stack)
    jobs = _open_jobs(settings, given.jobs, stack)
    suite = await to_thread.run_sync(open_suite, settings.suite)
    toolbox = await to_thread.run_sync(open_toolbox, settings.tools, os.environ)
    stack.push_async_callback(toolbox.close)
    fleet = Fleet(await _open_replicas(settings, given.engines, stack))
    residency = Residency(fleet, suite, slots=settings.max_versions, tolerance=settings.probe_tolerance)
    swap = Swap(books, fleet, residency)
    await ensure_base(books, fleet, settings.model)
    callers = Callers(books, settings.key_seconds)
    keyring = KeyRing(books, callers)
    await keyring.first_operator(settings.data if settings.embedded else None)
    rules = Rules(settings.max_runs, settings.success_threshold)
    trust = Trust(settings.trusted_role, settings.success_threshold)
    desk = FeedbackDesk(books, telemetry, trust)
    runs = Runs(books, fleet, Worlds(suite, settings.suite, toolbox), telemetry, rules)
    state = State(
        settings=settings,
        books=books,
        fleet=fleet,
        swap=swap,
        runs=runs,
        chats=ChatDesk(books, fleet, runs, telemetry, desk.settle),
        feedback=desk,
        rounds=RoundOffice(books, jobs),
        keys=keyring,
        callers=callers,
        telemetry=telemetry,
        toolbox=toolbox,
    )
    await _reconcile(Reconciler(books, fleet, swap, telemetry), settings.reconcile_seconds, stack)
    stack.push_async_callback(state.runs.drain, settings.drain_seconds)
    return state


async def _open_books(settings: Settings, given: Ledger | None, stack: AsyncExitStack) -> BooksAsync:
    opening = partial(Ledger.open, settings.ledger, pool_size=settings.ledger_pool)
    ledger = await to_thread.run_sync(opening) if given is None else given
    if given is None:
        stack.callback(ledger.close)
    return BooksAsync(ledger)


def _open_jobs(settings: Settings, given: Jobs | None, stack: AsyncExitStack) -> Jobs:
    if given is not None:
        return given
    jobs = CeleryJobs.connect(settings.broker_url, settings.data / "queue", settings.broker_visibility_seconds)
    stack.callback(jobs.close)
    return jobs


async def _open_replicas(
    settings: Settings, given: Mapping[str, Engine] | None, stack: AsyncExitStack
) -> tuple[Replica, ...]:
    engines = given or {"local": await to_thread.run_sync(open_engine, settings)}
    replicas = tuple(Replica(name, engine, settings.load_seconds) for name, engine in engines.items())
    if given is None:
        for replica in replicas:
            stack.push_async_callback(replica.close)
    return replicas


def open_engine(settings: Settings) -> Engine:
    """The engine that the settings choose. torch is imported here and nowhere else, and only for the local one."""
    if settings.engine is EngineChoice.SCRIPTED:
        return ScriptedEngine(lambda _: "done")
    from agents.transformers_engine.backbone import load_backbone  # noqa: PLC0415
    from agents.transformers_engine.engine import TransformersEngine  # noqa: PLC0415

    return TransformersEngine(load_backbone(model_folder(settings.model), settings.threads), MAX_BATCH)


async def _reconcile(reconciler: Reconciler, period: float, stack: AsyncExitStack) -> None:
    """First pass before the first request: current and previous version are loaded, or the service is not ready."""
    await reconciler.attempt()
    task = asyncio.create_task(reconciler.run(period))

    async def stop() -> None:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    stack.push_async_callback(stop)
