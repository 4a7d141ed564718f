"""Twins: many requests with one idempotency key at once, and feedback sent the moment a reply arrives."""

from __future__ import annotations

import asyncio

import aiohttp

from benchmarks.chaos.feedback import CREATED, stored_keys
from benchmarks.chaos.gateway import Gateway
from benchmarks.chaos.setting import Setting

TWINS = 100
REPLIES = 200
CONFLICT = 409


def twins_drill(setting: Setting) -> dict[str, float]:
    """One effect and one reply for a hundred twins, a conflict for a changed body, no unknown id right after a reply."""
    with Gateway(setting.folder, setting.ledger_url) as gateway:
        figures = asyncio.run(_play(gateway))
    return figures | {"twin_rows": float(stored_keys(setting.ledger_url).count("twin"))}


async def _play(gateway: Gateway) -> dict[str, float]:
    connector = aiohttp.TCPConnector(limit=TWINS)
    async with aiohttp.ClientSession(gateway.url, headers=gateway.headers, connector=connector) as session:
        episode = await _run(session)
        same = {"episode_id": episode, "value": 0.5, "idempotency_key": "twin"}
        answers = await asyncio.gather(*(_judge(session, same) for _ in range(TWINS)))
        changed, _ = await _judge(session, {**same, "value": 0.75})
        statuses = await asyncio.gather(*(_run_then_judge(session) for _ in range(REPLIES)))
    return {
        "twin_replies": float(len(set(answers))),
        "changed_refused": float(changed == CONFLICT),
        "unknown_ids": float(sum(status != CREATED for status in statuses)),
    }


async def _run(session: aiohttp.ClientSession) -> str:
    async with session.post("/v1/agent/runs", json={"input": "please cancel order 17"}) as answer:
        answer.raise_for_status()
        return str((await answer.json())["id"])


async def _judge(session: aiohttp.ClientSession, body: dict[str, object]) -> tuple[int, str]:
    """Status, and the id of the stored verdict."""
    async with session.post("/feedback", json=body) as answer:
        return answer.status, str((await answer.json()).get("id"))


async def _run_then_judge(session: aiohttp.ClientSession) -> int:
    status, _ = await _judge(session, {"episode_id": await _run(session), "value": 1.0})
    return status
