"""Feedback at full rate while the gateway is killed: what was acknowledged must be stored, once."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field

import aiohttp
import uvloop
from sqlalchemy import create_engine, select

from bank.ledger.tables.feedback import feedback
from benchmarks.chaos.gateway import Gateway
from benchmarks.chaos.setting import Setting
from benchmarks.line import Broken, Line

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
    gateway_cpu: float = 0.0
    """Processor seconds of the gateway in that time."""
    own_cpu: float = 0.0
    """Processor seconds of the generator in all."""


def feedback_drill(setting: Setting, *, kill: bool) -> dict[str, float]:
    """Keys acknowledged, stored and doubled; rate over the time in which a gateway was up."""
    loop = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    with Gateway(setting.folder, setting.ledger_url) as gateway, loop as runner:
        tally, kills = runner.run(_load(setting, gateway, kill=kill))
    stored = Counter(stored_keys(setting.ledger_url))
    return {
        "feedback_acknowledged": len(tally.acknowledged),
        "feedback_stored": sum(1 for key in tally.acknowledged if stored[key]),
        "feedback_doubled": sum(count - 1 for count in stored.values()),
        "feedback_refused": sum(tally.refused.values()),
        "feedback_resent": tally.broken,
        "feedback_per_s": len(tally.acknowledged) / tally.up_seconds,
        "gateway_cpu_ms": 1000 * tally.gateway_cpu / max(1, len(tally.acknowledged)),
        "generator_cpu_share": tally.own_cpu / tally.up_seconds,
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
    episodes = await _episodes(gateway)
    senders = [
        asyncio.create_task(_send(gateway, episodes, f"s{number}", tally, over)) for number in range(setting.senders)
    ]
    before = time.process_time()
    kills = await _disturb(setting, gateway, tally, kill=kill)
    tally.own_cpu = time.process_time() - before
    over.set()
    await asyncio.gather(*senders)
    return tally, kills


async def _episodes(gateway: Gateway) -> list[str]:
    found = []
    async with aiohttp.ClientSession(gateway.url, headers=gateway.headers) as session:
        for _ in range(EPISODES):
            async with session.post("/v1/agent/runs", json={"input": "please cancel order 17"}) as answer:
                answer.raise_for_status()
                found.append((await answer.json())["id"])
    return found


async def _send(gateway: Gateway, episodes: list[str], name: str, tally: Tally, over: asyncio.Event) -> None:
    """One verdict after the other; what got no answer is sent again under its key, over a new connection."""
    number, line = 0, None
    while not over.is_set():
        key = f"{name}-{number}"
        body = {"episode_id": episodes[number % len(episodes)], "value": 0.5, "idempotency_key": key}
        try:
            line = line or await Line.open(gateway.url, "/feedback", gateway.headers)
            status, _ = await line.post(json.dumps(body).encode())
        except (Broken, OSError):
            line = None
            tally.broken += 1
            await asyncio.sleep(PAUSE_SECONDS)
            continue
        number += 1
        if status == CREATED:
            tally.acknowledged.append(key)
        else:
            tally.refused[status] += 1
    if line is not None:
        line.close()


async def _disturb(setting: Setting, gateway: Gateway, tally: Tally, *, kill: bool) -> int:
    """Let the load run for the drill's time, with a kill -9 every few seconds; returns how many."""
    kills = 0
    while tally.up_seconds < setting.seconds:
        wanted = setting.rng.uniform(*KILL_BETWEEN) if kill else setting.seconds
        began, before = time.monotonic(), gateway.cpu_seconds()
        await asyncio.sleep(min(wanted, setting.seconds - tally.up_seconds))
        tally.up_seconds += time.monotonic() - began
        tally.gateway_cpu += gateway.cpu_seconds() - before
        if kill and tally.up_seconds < setting.seconds:
            gateway.kill()
            gateway.start()
            await asyncio.to_thread(gateway.ready)
            kills += 1
    return kills
