"""Promote and roll back through HTTP: proven before live, one pointer, a way back."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agents.adapter import WEIGHTS
from agents.engine import EngineFault
from agents.scripted import ScriptedEngine
from bank.checkpoint import CheckpointStatus
from service.client import read_events
from service.first_start import WrongBase


class Deaf(ScriptedEngine):
    """Answers, but can't be reached for loading."""

    async def load(self, adapter):
        raise EngineFault(f"connection refused, {adapter.name} not loaded")


async def _deployment(service):
    return (await service.client.get("/v1/deployment")).json()


async def _promote(service, name, **more):
    return await service.client.post("/v1/deployment/promote", json={"checkpoint": name, **more})


async def _rollback(service, **more):
    return await service.client.post("/v1/deployment/rollback", json=more)


def _status(service, name):
    row = service.read(lambda books: books.checkpoints.get(name))
    return row.status, row.reason


async def test_first_start_deploys_the_base_by_name(serve):
    async with serve() as service:
        deployment = await _deployment(service)

        assert (deployment["generation"], deployment["current"], deployment["previous"]) == (1, "base", None)
        assert [replica["ready"] for replica in deployment["replicas"]] == [True]
        assert (await service.client.get("/v1/checkpoints/base")).json()["status"] == "live"


async def test_promoted_version_answers_on_every_replica_and_is_named(serve, publish):
    engines = {"a": ScriptedEngine(["done"]), "b": ScriptedEngine(["done"])}
    async with serve(engines=engines) as service:
        name = await publish(service, engines["a"], "r1")
        answer = await _promote(service, name, reason="better", expected_generation=1)
        run = (await service.client.post("/v1/agent/runs", json={"input": "order 17"})).json()
        digest = service.read(lambda books: books.checkpoints.get(name)).digest
        audit = (await service.client.get("/v1/audit?limit=1")).json()["audit"][0]

        assert answer.status_code == 200
        assert (answer.json()["generation"], answer.json()["current"], answer.json()["previous"]) == (2, name, "base")
        assert [name in replica["versions"] for replica in answer.json()["replicas"]] == [True, True]
        assert run["policy"] == {"checkpoint": name, "digest": digest}
        assert (_status(service, name)[0], _status(service, "base")[0]) == (
            CheckpointStatus.LIVE,
            CheckpointStatus.RETIRED,
        )
        assert (audit["actor"], audit["action"], audit["subject"]) == ("key_rk_operator", "deployment.promote", name)


async def test_unknown_version_is_404_and_live_version_changes_nothing(serve):
    async with serve() as service:
        unknown, live = await _promote(service, "student-x"), await _promote(service, "base")

        assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown_checkpoint")
        assert (live.status_code, live.json()["generation"]) == (200, 1)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"shift": 0.5}, "nats from the trainer's"),
        ({"base_shift": 0.0}, "those of the base"),
        ({"base_digest": "1" * 64}, "another base"),
    ],
)
async def test_unproven_version_is_rejected_and_the_pointer_stays(serve, publish, options, reason):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        name = await publish(service, engine, "r1", **options)
        answer, again = await _promote(service, name), await _promote(service, name)
        run = (await service.client.post("/v1/agent/runs", json={"input": "order 17"})).json()
        audit = (await service.client.get("/v1/audit?limit=1")).json()["audit"][0]

        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "probe_failed")
        assert (again.status_code, again.json()["error"]["code"]) == (409, "checkpoint_rejected")
        assert _status(service, name)[0] is CheckpointStatus.REJECTED
        assert reason in _status(service, name)[1]
        assert name not in await engine.versions()
        assert (await _deployment(service))["generation"] == 1
        assert run["policy"]["checkpoint"] == "base"
        assert (audit["action"], audit["subject"]) == ("checkpoint.rejected", name)


async def test_one_replica_that_answers_otherwise_stops_the_promotion(serve, publish):
    engines = {"a": ScriptedEngine(["done"]), "b": ScriptedEngine(["gone"])}
    async with serve(engines=engines) as service:
        name = await publish(service, engines["a"], "r1")
        answer = await _promote(service, name)

        assert answer.status_code == 409
        assert "greedy answer" in answer.json()["error"]["message"]
        assert (await _deployment(service))["current"] == "base"
        assert name not in await engines["b"].versions()


DAMAGES = {
    "byte": lambda folder: (folder / WEIGHTS).write_bytes(b"Weights"),
    "missing": lambda folder: (folder / WEIGHTS).unlink(),
    "extra": lambda folder: (folder / "pytorch_model.bin").write_bytes(b""),
    "gone": lambda folder: folder.rename(folder.with_name("moved")),
}


@pytest.mark.parametrize("damage", DAMAGES)
async def test_damaged_folder_is_refused(serve, publish, damage):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        name = await publish(service, engine, "r1")
        folder = Path(service.read(lambda books: books.checkpoints.get(name)).path)
        DAMAGES[damage](folder)
        answer = await _promote(service, name)

        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "probe_failed")
        assert _status(service, name)[0] is CheckpointStatus.REJECTED
        assert (await _deployment(service))["generation"] == 1


async def test_replica_that_can_not_be_reached_rejects_nothing(serve, publish):
    engine = ScriptedEngine(["done"])
    async with serve(engines={"a": engine, "b": Deaf(["done"])}) as service:
        name = await publish(service, engine, "r1")
        answer = await _promote(service, name)

        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_unavailable")
        assert _status(service, name)[0] is CheckpointStatus.CANDIDATE
        assert (await _deployment(service))["generation"] == 1


async def test_promotion_is_compare_and_set_on_the_generation(serve, publish):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        names = [await publish(service, engine, f"r{i}") for i in range(4)]
        answers = await asyncio.gather(*(_promote(service, name, expected_generation=1) for name in names))
        late = await _rollback(service, expected_generation=1)
        won = [name for name, answer in zip(names, answers, strict=True) if answer.status_code == 200]

        assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409]
        assert {answer.json()["error"]["code"] for answer in answers if answer.is_error} == {"stale_generation"}
        assert late.json()["error"]["code"] == "stale_generation"
        assert [(await _deployment(service))[key] for key in ("generation", "current")] == [2, won[0]]


async def test_two_bad_releases_are_two_rollbacks_from_the_good_one(serve, publish):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        good, bad, worse = [await publish(service, engine, f"r{i}") for i in range(3)]
        for name in (good, bad, worse):
            await _promote(service, name)
        steps = [(await _rollback(service, reason="it got worse")).json()["current"] for _ in range(3)]
        over = await _rollback(service)
        history = (await service.client.get("/v1/deployment/history?limit=7")).json()["history"]

        assert steps == [bad, good, "base"]
        assert (over.status_code, over.json()["error"]["code"]) == (409, "nothing_to_roll_back")
        assert [flip["current"] for flip in history] == ["base", good, bad, worse, bad, good, "base"]
        assert [flip["generation"] for flip in history] == list(range(7, 0, -1))
        assert (await service.client.get("/v1/audit?limit=1")).json()["audit"][0]["action"] == "deployment.rollback"


async def test_version_that_runs_still_use_is_retired_only_after_them(serve, publish):
    release, asked = asyncio.Event(), asyncio.Event()

    async def wait(request):
        if "order 17" in request.messages[-1].content and request.version.startswith("student-r0"):
            asked.set()
            await release.wait()
        return "done"

    engine = ScriptedEngine(wait)
    async with serve(engine, reconcile_seconds=0.02) as service:
        first, second, third = [await publish(service, engine, f"r{i}") for i in range(3)]
        await _promote(service, first)
        running = asyncio.create_task(service.client.post("/v1/agent/runs", json={"input": "order 17"}))
        await asked.wait()
        await _promote(service, second)
        await _promote(service, third)
        await asyncio.sleep(0.1)
        during = set(await engine.versions())
        release.set()
        answer = (await running).json()
        await _until(lambda: first not in service.state.fleet.replicas[0].resident)

        assert during == {"base", first, second, third}
        assert answer["policy"]["checkpoint"] == first
        assert set(await engine.versions()) == {"base", second, third}


async def test_no_room_refuses_without_rejecting(serve, publish):
    stop = asyncio.Event()

    async def wait(request):
        if request.messages[-1].content.startswith("hold"):
            await stop.wait()
        return "done"

    engine = ScriptedEngine(wait)
    async with serve(engine, max_versions=3) as service:
        names = [await publish(service, engine, f"r{i}") for i in range(4)]
        runs = []
        for name in names[:3]:
            await _promote(service, name)
            runs.append(asyncio.create_task(service.client.post("/v1/agent/runs", json={"input": f"hold {name}"})))
            await _until(lambda name=name: service.state.fleet.replicas[0].leases[name] == 1)
        answer = await _promote(service, names[3])
        stop.set()
        await asyncio.gather(*runs)
        later = await _promote(service, names[3])

        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "no_room")
        assert (later.status_code, later.json()["current"]) == (200, names[3])


async def test_restart_loads_and_proves_current_and_previous_before_it_is_ready(serve, publish):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        first, second = [await publish(service, engine, f"r{i}") for i in range(2)]
        await _promote(service, first)
        await _promote(service, second)

    restarted = ScriptedEngine(["done"])
    async with serve(restarted) as service:
        assert set(await restarted.versions()) == {"base", first, second}
        assert (await service.client.get("/readyz")).json()["generation"] == 3
        assert {request.version for request in restarted.requests} == {first, second}


async def test_live_version_that_can_not_be_restored_answers_503_and_never_the_base(serve, publish):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        name = await publish(service, engine, "r1")
        await _promote(service, name)
        path = Path(service.read(lambda books: books.checkpoints.get(name)).path)
        (path / WEIGHTS).unlink()

    async with serve(ScriptedEngine(["done"])) as service:
        ready = await service.client.get("/readyz")
        refused = await service.client.post("/v1/agent/runs", json={"input": "order 17"})
        back = await _rollback(service, reason="weights are gone")
        answer = await service.client.post("/v1/agent/runs", json={"input": "order 17"})

        assert (ready.status_code, refused.status_code) == (503, 503)
        assert ready.json()["error"]["code"] == refused.json()["error"]["code"] == "not_ready"
        assert back.json()["current"] == "base"
        assert (answer.status_code, answer.json()["policy"]["checkpoint"]) == (201, "base")
        assert len(service.episodes()) == 1


async def test_way_back_that_is_damaged_stops_only_the_rollback(serve, publish):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        first, second = [await publish(service, engine, f"r{i}") for i in range(2)]
        await _promote(service, first)
        await _promote(service, second)
        path = Path(service.read(lambda books: books.checkpoints.get(first)).path)
        (path / WEIGHTS).unlink()

    async with serve(ScriptedEngine(["done"]), reconcile_seconds=0.02) as service:
        run = (await service.client.post("/v1/agent/runs", json={"input": "order 17"})).json()
        back = await _rollback(service)

        assert run["policy"]["checkpoint"] == second
        assert (back.status_code, back.json()["error"]["code"]) == (409, "probe_failed")
        assert (await _deployment(service))["current"] == second


async def test_engine_that_forgot_the_live_version_gets_it_back_before_more_runs(serve, publish):
    engine = ScriptedEngine(["done"])
    async with serve(engine) as service:
        name = await publish(service, engine, "r1")
        await _promote(service, name)
        await engine.unload(name)
        lost = (await service.client.post("/v1/agent/runs", json={"input": "order 17"})).json()
        refused = await service.client.post("/v1/agent/runs", json={"input": "order 17"})
        await service.state.swap.restore()
        answer = (await service.client.post("/v1/agent/runs", json={"input": "order 17"})).json()

        assert (lost["stop_reason"], lost["policy"]["checkpoint"]) == ("fault", name)
        assert refused.json()["error"]["code"] == "not_ready"
        assert (answer["stop_reason"], answer["policy"]["checkpoint"]) == ("finished", name)


async def test_ledger_of_another_base_is_refused_at_start(serve):
    async with serve():
        pass

    other = ScriptedEngine(["done"])
    other._versions["base"] = "1" * 64
    with pytest.raises(WrongBase, match="RATCHET_MODEL"):
        async with serve(other):
            pass


async def test_promote_and_rollback_under_eight_streams_fail_no_request(listen, publish, hermes):
    async def slow(request):
        await asyncio.sleep(0.005)
        return "done" if len(request.messages) > 8 else hermes("get_order", order=str(10 + len(request.messages)))

    engine = ScriptedEngine(slow)
    async with listen(engine) as (service, _):
        name = await publish(service, engine, "r1")
        operator = asyncio.create_task(_alternate(service, name, times=6))
        answers = [
            answer
            for client in await asyncio.gather(*(_stream(service, operator) for _ in range(8)))
            for answer in client
        ]
        swaps = await operator
        episodes = {episode.id: episode for episode in service.episodes()}

    assert [swap.status_code for swap in swaps] == [200] * 12
    assert {events[-1][0] for events in answers} == {"done"}
    assert {events[0][1]["policy"]["checkpoint"] for events in answers} == {"base", name}
    for events in answers:
        assert events[0][1]["policy"] == events[-1][1]["policy"]
        assert episodes[events[0][1]["id"]].policy == events[0][1]["policy"]["checkpoint"]
    by_run = {}
    for request in engine.requests:
        by_run.setdefault(request.messages[1].content, set()).add(request.version)
    assert all(len(versions) == 1 for text, versions in by_run.items() if text.startswith("stream"))


async def _alternate(service, name, times):
    answers = []
    for _ in range(times):
        answers.append(await _promote(service, name))
        await asyncio.sleep(0.01)
        answers.append(await _rollback(service))
        await asyncio.sleep(0.01)
    return answers


async def _stream(service, until: asyncio.Task):
    answers = []
    while not until.done():
        body = {"input": f"stream {id(answers)} {len(answers)}", "stream": True}
        async with service.client.stream("POST", "/v1/agent/runs", json=body) as answer:
            assert answer.status_code == 200
            answers.append(list(read_events([line async for line in answer.aiter_lines()])))
    return answers


async def _until(condition) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)
