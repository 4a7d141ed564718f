"""Feedback at full rate while the gateway is killed: what was acknowledged must be stored, once."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp
from sqlalchemy import create_engine, select

from bank.ledger.tables.feedback import feedback
from benchmarks.chaos.gateway import Gateway
from benchmarks.chaos.setting import Setting

EPISODES = 50
PAUSE_SECONDS = 0.05
KILL_BETWEEN = (2.0, 4.0)
"""Seconds of undisturbed load before each kill."""
CREATED = 201


@dataclass
class Tally:
    """What the senders saw."""

    acknowledged: list[str] = field(default_factory=list)
    """Idempotency keys that were answered 201."""
    refused: Counter[int] = field(default_factory=Counter)
    """Other statuses."""
    broken: int = 0
    """Requests without an answer; each was sent again under its key."""
    up_seconds: float = 0.0
    """Time with a gateway that answers."""


def feedback_drill(setting: Setting, *, kill: bool) -> dict[str, float]:
    """Keys acknowledged, stored and doubled; rate over the time in which a gateway was up."""
    with Gateway(setting.folder, setting.ledger_url) as gateway:
        tally, kills = asyncio.run(_load(setting, gateway, kill=kill))
    stored = Counter(stored_keys(setting.ledger_url))
    return {
        "feedback_acknowledged": len(tally.acknowledged),
        "feedback_stored": sum(1 for key in tally.acknowledged if stored[key]),
        "feedback_doubled": sum(count - 1 for count in stored.values()),
        "feedback_refused": sum(tally.refused.values()),
        "feedback_resent": tally.broken,
        "feedback_per_s": len(tally.acknowledged) / tally.up_seconds,
        "kills": kills,
    }


def stored_keys(url: str) -> list[str]:
    """Idempotency keys of every row, read without the gateway."""
    engine = create_engine(url)
    with engine.connect() as connection:
        keys = list(connection.execute(select(feedback.c.idempotency_key)).scalars())
    engine.dispose()
    return keys


async def _load(setting: Setting, gateway: Gateway, *, kill: bool) -> tuple[Tally, int]:
    tally = Tally()
    over = asyncio.Event()
    connector = aiohttp.TCPConnector(limit=setting.senders)
    async with aiohttp.ClientSession(gateway.url, headers=gateway.headers, connector=connector) as session:
        episodes = await _episodes(session)
        senders = [
            asyncio.create_task(_send(session, episodes, f"s{number}", tally, over))
            for number in range(setting.senders)
        ]
        kills = await _disturb(setting, gateway, tally, kill=kill)
        over.set()
        await asyncio.gather(*senders)
    return tally, kills


async def _episodes(session: aiohttp.ClientSession) -> list[str]:
    found = []
    for _ in range(EPISODES):
        async with session.post("/v1/agent/runs", json={"input": "please cancel order 17"}) as answer:
            answer.raise_for_status()
            found.append((await answer.json())["id"])
    return found


async def _send(
    session: aiohttp.ClientSession, episodes: list[str], name: str, tally: Tally, over: asyncio.Event
) -> None:
    number = 0
    while not over.is_set():
        body = {"episode_id": episodes[number % len(episodes)], "value": 0.5, "idempotency_key": f"{name}-{number}"}
        status = await _status(session, body)
        if status == CREATED:
            tally.acknowledged.append(str(body["idempotency_key"]))
            number += 1
        elif status is None:
            tally.broken += 1
            await asyncio.sleep(PAUSE_SECONDS)
        else:
            tally.refused[status] += 1
            number += 1


async def _status(session: aiohttp.ClientSession, body: dict[str, object]) -> int | None:
    """None when the connection ended without an answer."""
    try:
        async with session.post("/feedback", json=body) as answer:
            await answer.read()
            return answer.status
    except (aiohttp.ClientError, TimeoutError, ConnectionError):
        return None


async def _disturb(setting: Setting, gateway: Gateway, tally: Tally, *, kill: bool) -> int:
    """Let the load run for the drill's time, with a kill -9 every few seconds; returns how many."""
    kills = 0
    while tally.up_seconds < setting.seconds:
        wanted = setting.rng.uniform(*KILL_BETWEEN) if kill else setting.seconds
        began = time.monotonic()
        await asyncio.sleep(min(wanted, setting.seconds - tally.up_seconds))
        tally.up_seconds += time.monotonic() - began
        if kill and tally.up_seconds < setting.seconds:
            gateway.kill()
            gateway.start()
            await asyncio.to_thread(gateway.ready)
            kills += 1
    return kills
