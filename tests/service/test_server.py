"""Over a real socket: limits by counted bytes, callers who hang up, and a stop with open streams."""

from __future__ import annotations

import asyncio

import httpx

from agents.scripted import ScriptedEngine
from bank.episode import StopReason
from service.client import read_events

MIB = 1024 * 1024


def _stuck(asked: asyncio.Event) -> ScriptedEngine:
    async def wait(_):
        asked.set()
        await asyncio.Event().wait()
        return "never"

    return ScriptedEngine(wait)


async def test_ten_megabytes_get_their_413_also_without_a_length(listen):
    async def chunks():
        for _ in range(160):
            yield b" " * (MIB // 16)

    async with listen() as (service, _):
        json_headers = {"content-type": "application/json"}
        known = await service.client.post("/feedback", content=b" " * (10 * MIB), headers=json_headers)
        chunked = await service.client.post("/feedback", content=chunks(), headers=json_headers)

        assert [answer.status_code for answer in (known, chunked)] == [413, 413]
        assert (await service.client.get("/healthz")).status_code == 200


async def test_hanging_up_on_a_stream_or_a_reply_ends_its_run(listen):
    asked = asyncio.Event()
    async with listen(_stuck(asked)) as (service, _):
        async with service.client.stream("POST", "/v1/agent/runs", json={"input": "a", "stream": True}) as answer:
            await anext(answer.aiter_lines())
        waiting = asyncio.create_task(service.client.post("/v1/agent/runs", json={"input": "b"}))
        async with asyncio.timeout(60):
            while "b" not in {live.run.task.text for live in service.state.runs._live.values()}:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        waiting.cancel()
        async with asyncio.timeout(60):
            while len(service.episodes()) < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.01)

        assert {episode.stop_reason for episode in service.episodes()} == {StopReason.CANCELLED}
        assert {episode.task for episode in service.episodes()} == {"a", "b"}


async def test_stop_with_open_streams_tells_them_and_records_their_runs(listen):
    asked = asyncio.Event()
    async with listen(_stuck(asked), drain_seconds=0.2) as (service, server):
        streams = [asyncio.create_task(_events(service.client, number)) for number in range(20)]
        replies = [asyncio.create_task(service.client.post("/v1/agent/runs", json={"input": "reply"}))]
        async with asyncio.timeout(60):
            while len(service.state.runs._live) < 21:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        server.should_exit = True
        async with asyncio.timeout(60):
            endings = await asyncio.gather(*streams)
            (reply,) = await asyncio.gather(*replies)
        episodes = service.episodes()

    assert {events[-1][0] for events in endings} == {"error"}
    assert {events[-1][1]["error"]["code"] for events in endings} == {"shutting_down"}
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "shutting_down")
    assert len(episodes) == 21
    assert {episode.stop_reason for episode in episodes} == {StopReason.CANCELLED}
    assert {events[0][1]["id"] for events in endings} < {episode.id for episode in episodes}


async def test_stop_lets_runs_finish_that_can(listen):
    release, asked = asyncio.Event(), asyncio.Event()

    async def wait(_):
        asked.set()
        await release.wait()
        return "done"

    async with listen(ScriptedEngine(wait), drain_seconds=10.0) as (service, server):
        running = asyncio.create_task(service.client.post("/v1/agent/runs", json={"input": "a"}))
        await asked.wait()
        server.should_exit = True
        async with asyncio.timeout(60):
            while not service.state.runs.draining:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        refused = await service.client.post("/v1/agent/runs", json={"input": "b"})
        release.set()
        answer = await running

    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
    assert (answer.status_code, answer.json()["stop_reason"]) == (201, "finished")


async def _events(client: httpx.AsyncClient, number: int):
    async with client.stream("POST", "/v1/agent/runs", json={"input": f"order {number}", "stream": True}) as answer:
        return list(read_events([line async for line in answer.aiter_lines()]))
