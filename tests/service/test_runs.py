"""Runs through HTTP: recorded before acknowledged, attributed, bounded, cancelled with their caller."""

from __future__ import annotations

import asyncio
import json
import sqlite3

import pytest

from agents.engine import EngineFault
from agents.scripted import ScriptedEngine
from bank.episode import Split, StopReason
from service.client import read_events
from service.runs.stream import with_comments


async def test_run_is_on_record_with_its_tokens_when_it_is_acknowledged(serve, gold):
    task_id, script = gold()
    async with serve(ScriptedEngine(script)) as service:
        answer = await service.client.post("/v1/agent/runs", json={"task_id": task_id})
        body = answer.json()
        episode = service.read(lambda books: books.episodes.get(body["id"]))

        assert answer.status_code == 201
        assert (body["reward"], body["stop_reason"], body["output"]) == (1.0, "finished", "done")
        assert body["policy"] == {"checkpoint": "base", "digest": "0" * 64}
        assert episode.policy == "base"
        assert [len(turn.sampled_ids) for turn in episode.turns] == [len(turn.logprobs) for turn in episode.turns]
        assert body["usage"]["completion_tokens"] == sum(len(turn.sampled_ids) for turn in episode.turns)
        assert len(body["steps"]) == len(script)


async def test_success_leaves_one_experience_and_a_held_out_success_none(serve, gold):
    for split, expected in ((Split.TRAIN, 1), (Split.HELD_OUT, 0)):
        task_id, script = gold(split)
        async with serve(ScriptedEngine(script)) as service:
            before = service.read(lambda books: books.experiences.count())
            body = (await service.client.post("/v1/agent/runs", json={"task_id": task_id})).json()

            assert body["reward"] == 1.0
            assert service.read(lambda books: books.experiences.count()) - before == expected


async def test_episode_and_experience_are_one_transaction(serve, gold, tmp_path):
    task_id, script = gold()
    async with serve(ScriptedEngine(script)) as service:
        with sqlite3.connect(tmp_path / "ledger.sqlite3") as connection:
            connection.execute("DROP TABLE experiences")
        connection.close()
        answer = await service.client.post("/v1/agent/runs", json={"task_id": task_id})

        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "ledger_unavailable"
        assert service.episodes() == ()


@pytest.mark.parametrize(
    ("reply", "hint"),
    [
        ('<tool_call>\n{"name": "refnd", "arguments": {"order": "17"}}\n</tool_call>', "refund"),
        ('<tool_call>\n{"name": "refund", "arguments": {"order": \n</tool_call>', "JSON"),
        ('<tool_call>\n{"name": "refund", "arguments": {}}\n</tool_call>', "order"),
    ],
    ids=["unknown tool", "broken JSON", "missing argument"],
)
async def test_bad_tool_call_is_told_to_the_model_and_the_run_goes_on(serve, reply, hint):
    async with serve(ScriptedEngine([reply, "done"])) as service:
        answer = await service.client.post("/v1/agent/runs", json={"input": "refund order 17"})
        observation = answer.json()["steps"][0]["observations"][0]["content"]

        assert answer.status_code == 201
        assert answer.json()["stop_reason"] == "finished"
        assert observation.startswith("error:")
        assert hint in observation


async def test_users_own_words_have_no_reward_and_equal_words_are_one_task(serve):
    async with serve() as service:
        bodies = [(await service.client.post("/v1/agent/runs", json={"input": "cancel order 17"})).json() for _ in "ab"]

        assert [body["reward"] for body in bodies] == [None, None]
        assert bodies[0]["task_id"] == bodies[1]["task_id"]
        assert bodies[0]["id"] != bodies[1]["id"]


async def test_engine_fault_is_recorded_and_not_rewarded(serve, gold):
    def broken(_):
        raise EngineFault("out of memory")

    async with serve(ScriptedEngine(broken)) as service:
        body = (await service.client.post("/v1/agent/runs", json={"task_id": gold()[0]})).json()

        assert (body["stop_reason"], body["reward"]) == ("fault", None)
        assert "out of memory" in body["fault"]
        assert len(service.episodes()) == 1


async def test_limits_of_the_request_hold(serve, hermes):
    async with serve(ScriptedEngine(lambda request: hermes("get_order", order=str(len(request.messages))))) as service:
        body = {"input": "cancel order 17", "limits": {"steps": 2}}
        answer = (await service.client.post("/v1/agent/runs", json=body)).json()

        assert answer["stop_reason"] == "step_limit"
        assert len(answer["steps"]) == 2


async def test_sampling_reaches_the_engine_with_a_seed_per_turn(serve, gold):
    task_id, script = gold()
    engine = ScriptedEngine(script)
    async with serve(engine) as service:
        sampling = {"temperature": 0.5, "top_p": 0.9, "seed": 7, "max_tokens": 100}
        await service.client.post("/v1/agent/runs", json={"task_id": task_id, "sampling": sampling})

    asked = [request.sampling for request in engine.requests]
    assert {(one.temperature, one.top_p, one.max_tokens) for one in asked} == {(0.5, 0.9, 100)}
    assert len({one.seed for one in asked}) == len(script)


async def test_stream_tells_run_steps_and_the_recorded_end(serve, gold):
    task_id, script = gold()
    async with serve(ScriptedEngine(script)) as service:
        answer = await service.client.post("/v1/agent/runs", json={"task_id": task_id, "stream": True})
        events = list(read_events(answer.text.splitlines()))
        stored = (await service.client.get(f"/v1/agent/runs/{events[0][1]['id']}")).json()

        assert answer.headers["content-type"].startswith("text/event-stream")
        assert [name for name, _ in events] == ["run", *["step"] * len(script), "done"]
        assert events[0][1]["policy"] == stored["policy"]
        assert {**events[-1][1], "feedback": []} == stored
        assert [data for name, data in events if name == "step"] == stored["steps"]


async def test_full_house_answers_busy_and_recovers(serve):
    release, asked = asyncio.Event(), asyncio.Event()

    async def wait(_):
        asked.set()
        await release.wait()
        return "done"

    async with serve(ScriptedEngine(wait), max_runs=1) as service:
        first = asyncio.create_task(service.client.post("/v1/agent/runs", json={"input": "order 17"}))
        await asked.wait()
        refused = await service.client.post("/v1/agent/runs", json={"input": "order 18"})
        release.set()
        accepted = await first
        again = await service.client.post("/v1/agent/runs", json={"input": "order 19"})

        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "busy")
        assert refused.headers["retry-after"] == "1"
        assert (accepted.status_code, again.status_code) == (201, 201)
        assert len(service.episodes()) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_caller_who_leaves_ends_the_run_as_cancelled_and_unrewarded(serve, gold, stream):
    task_id, script = gold()
    stuck = asyncio.Event()

    async def first_turn_then_silence(request):
        if len(request.messages) > 2:
            stuck.set()
            await asyncio.Event().wait()
        return script[0]

    async with serve(ScriptedEngine(first_turn_then_silence)) as service:
        await _call_and_leave(service.app, {"task_id": task_id, "stream": stream}, stuck)
        (episode,) = service.episodes()

        assert (episode.stop_reason, episode.reward, len(episode.turns)) == (StopReason.CANCELLED, None, 1)
        assert service.read(lambda books: books.experiences.count()) == 0
        assert service.state.fleet.replicas[0].leases.total() == 0
        assert (service.state.runs._seats, service.state.runs._live) == (0, {})


async def test_running_run_is_announced_as_in_progress_to_its_owner_only(serve, keys):
    release, asked = asyncio.Event(), asyncio.Event()

    async def wait(_):
        asked.set()
        await release.wait()
        return "done"

    async with serve(ScriptedEngine(wait)) as service:
        body = {"input": "order 17"}
        running = asyncio.create_task(service.client.post("/v1/agent/runs", json=body, headers=keys["user"]))
        await asked.wait()
        (run_id,) = service.state.runs._live
        path, verdict = f"/v1/agent/runs/{run_id}", {"episode_id": run_id, "value": 1}
        mine = await service.client.get(path, headers=keys["user"])
        feedback = await service.client.post("/feedback", json=verdict, headers=keys["user"])
        foreign = await service.client.get(path, headers=keys["stranger"])
        release.set()
        await running

        assert [mine.json()["error"]["code"], feedback.json()["error"]["code"]] == ["run_in_progress"] * 2
        assert foreign.status_code == 404


async def test_users_see_their_own_runs_and_operators_all(serve, keys):
    async with serve() as service:
        for name in ("user", "stranger", "user"):
            await service.client.post("/v1/agent/runs", json={"input": f"for {name}"}, headers=keys[name])
        listed = {
            name: [run["id"] for run in (await service.client.get("/v1/agent/runs", headers=keys[name])).json()["runs"]]
            for name in keys
        }
        foreign = await service.client.get(f"/v1/agent/runs/{listed['stranger'][0]}", headers=keys["user"])
        unknown = await service.client.get("/v1/agent/runs/ep_nothing", headers=keys["user"])

        assert [len(listed[name]) for name in ("operator", "user", "stranger")] == [3, 2, 1]
        assert foreign.status_code == unknown.status_code == 404
        assert foreign.json()["error"] == unknown.json()["error"]


async def test_listing_pages_backwards(serve):
    async with serve() as service:
        made = [(await service.client.post("/v1/agent/runs", json={"input": str(i)})).json()["id"] for i in range(5)]
        first = (await service.client.get("/v1/agent/runs?limit=2")).json()["runs"]
        rest = (await service.client.get(f"/v1/agent/runs?limit=10&before={first[-1]['id']}")).json()["runs"]

        assert [run["id"] for run in (*first, *rest)] == made[::-1]


async def test_quiet_stream_is_kept_alive_and_loses_no_event():
    release, chunks = asyncio.Event(), []

    async def events():
        yield b"first"
        await release.wait()
        yield b"last"

    async for chunk in with_comments(events(), 0.01):
        chunks.append(chunk)
        if chunks.count(b": still there\n\n") == 2:
            release.set()

    assert [chunks[0], chunks[-1]] == [b"first", b"last"]
    assert set(chunks[1:-1]) == {b": still there\n\n"}


async def _call_and_leave(app, body, leave: asyncio.Event) -> None:
    """One POST whose client closes the connection when `leave` is set."""
    content = json.dumps(body).encode()
    messages = [{"type": "http.request", "body": content, "more_body": False}]

    async def receive():
        if messages:
            return messages.pop()
        await leave.wait()
        return {"type": "http.disconnect"}

    async def send(_):
        return None

    headers = [(b"authorization", b"Bearer rk_operator"), (b"content-type", b"application/json")]
    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/agent/runs",
        "raw_path": b"/v1/agent/runs",
        "query_string": b"",
        "root_path": "",
        "headers": headers,
        "scheme": "http",
        "server": ("ratchet", 80),
        "client": ("test", 1),
    }
    async with asyncio.timeout(60):
        await app(scope, receive, send)
