"""Approved checkpoints go live by themselves; everything doubtful waits for an operator."""

from __future__ import annotations

import asyncio

import pytest

from agents.scripted import ScriptedEngine
from bank.checkpoint import CheckpointStatus
from service.reconciler import Reconciler


@pytest.fixture
def tick():
    """One pass of the reconciler of a service."""

    async def once(service):
        state = service.state
        await Reconciler(state.books, state.fleet, state.swap, state.telemetry).tick()

    return once


def _row(service, name):
    return service.read(lambda books: books.checkpoints.get(name))


def _current(service):
    return service.read(lambda books: books.deployments.current())


async def test_approved_version_is_swapped_in_without_a_restart(serve, publish):
    engine = ScriptedEngine(["done"])
    async with serve(engine, reconcile_seconds=0.02) as service:
        name = await publish(service, engine, "r1", status=CheckpointStatus.APPROVED)
        async with asyncio.timeout(60):
            while _current(service).current != name:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        run = (await service.client.post("/v1/agent/runs", json={"input": "order 17"})).json()

        assert run["policy"]["checkpoint"] == name
        assert (_row(service, name).status, _current(service).actor) == (CheckpointStatus.LIVE, "gate")


async def test_candidates_and_rejected_ones_are_left_alone(serve, publish, tick):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        for label, status in (("r1", CheckpointStatus.CANDIDATE), ("r2", CheckpointStatus.REJECTED)):
            await publish(service, engine, label, status=status)
        await tick(service)

        assert _current(service).generation == 1


async def test_verdict_against_another_version_is_handed_to_an_operator(serve, publish, tick):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        live = await publish(service, engine, "r1")
        await service.client.post("/v1/deployment/promote", json={"checkpoint": live})
        name = await publish(service, engine, "r2", status=CheckpointStatus.APPROVED, parent="base")
        await tick(service)

        assert _current(service).current == live
        assert _row(service, name).status is CheckpointStatus.CANDIDATE
        assert "judged against base" in _row(service, name).reason


async def test_approved_version_that_fails_its_probe_is_rejected_once(serve, publish, tick):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        name = await publish(service, engine, "r1", status=CheckpointStatus.APPROVED, shift=1.0)
        await tick(service)
        await tick(service)
        rejections = [row for row in service.read(lambda books: books.audit.latest(50)) if row.subject == name]

        assert _row(service, name).status is CheckpointStatus.REJECTED
        assert _current(service).current == "base"
        assert [row.action for row in rejections] == ["checkpoint.rejected"]


async def test_rolled_back_version_does_not_come_back_by_itself(serve, publish, tick):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        await publish(service, engine, "r1", status=CheckpointStatus.APPROVED)
        await tick(service)
        await service.client.post("/v1/deployment/rollback", json={"reason": "users complain"})
        await tick(service)

        assert (_current(service).current, _current(service).generation) == ("base", 3)


async def test_flip_by_another_process_is_followed(serve, publish, tick):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        name = await publish(service, engine, "r1")
        now = _row(service, name).created_at
        service.write(lambda books: books.deployments.flip(1, name, "elsewhere", "", now))
        await tick(service)
        run = (await service.client.post("/v1/agent/runs", json={"input": "order 17"})).json()

        assert run["policy"]["checkpoint"] == name
        assert "ratchet_deployment_generation 2.0" in (await service.client.get("/metrics")).text


async def test_failed_pass_is_counted_and_survived(serve, publish):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        state = service.state
        name = await publish(service, engine, "r1", base_digest="1" * 64)
        now = _row(service, name).created_at
        service.write(lambda books: books.deployments.flip(1, name, "elsewhere", "", now))
        reconciler = Reconciler(state.books, state.fleet, state.swap, state.telemetry)

        assert await reconciler.attempt() is False
        assert "ratchet_reconcile_failures_total 1.0" in (await service.client.get("/metrics")).text
        run = (await service.client.post("/v1/agent/runs", json={"input": "order 17"})).json()
        assert run["policy"]["checkpoint"] == "base"
