"""Latency, throughput and processor time: through the gateway, and around it."""

from __future__ import annotations

import asyncio
import json
import statistics
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

import uvloop

from benchmarks.chaos.gateway import Gateway
from benchmarks.line import Line

PATH = "/v1/chat/completions"
OK = 200
SYSTEM = "You are the clerk of an order desk. Answer in one sentence, and only about the orders of the one who asks."
WARM_UP = 64


@dataclass(frozen=True, slots=True)
class Arm:
    """A server to ask, and how it calls its model."""

    url: str
    model: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Load:
    """What one arm gave."""

    seconds: tuple[float, ...]
    """Latency of each request."""
    wall: float
    own_cpu: float
    """Processor seconds of the generator."""

    @property
    def per_second(self) -> float:
        """Requests a second."""
        return len(self.seconds) / self.wall

    def percentile(self, hundredth: int) -> float:
        """Milliseconds."""
        return 1000 * statistics.quantiles(self.seconds, n=100, method="inclusive")[hundredth - 1]


def compare(direct: Arm, gateway: Gateway, *, seconds: float, senders: int) -> dict[str, float]:
    """The same prompts both ways, first one at a time, then `senders` at a time; every answer is on record before it is sent."""
    through = Arm(gateway.url, "student", gateway.headers)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        for arm in (direct, through):
            runner.run(load(arm, WARM_UP, None, seed=0))
        alone = {arm.url: runner.run(load(arm, 1, seconds / 2, seed=1)) for arm in (direct, through)}
        full = runner.run(load(direct, senders, seconds, seed=2))
        before = gateway.cpu_seconds()
        mine = runner.run(load(through, senders, seconds, seed=2))
        cpu = gateway.cpu_seconds() - before
    added = {p: alone[through.url].percentile(p) - alone[direct.url].percentile(p) for p in (50, 99)}
    return {
        "gateway_cpu_ms": 1000 * cpu / len(mine.seconds),
        "gateway_added_ms_p50": added[50],
        "gateway_added_ms_p99": added[99],
        "throughput_ratio": mine.per_second / full.per_second,
        "requests_per_s": mine.per_second,
        "direct_requests_per_s": full.per_second,
        "generator_cpu_share": mine.own_cpu / mine.wall,
    }


async def load(arm: Arm, senders: int, seconds: float | None, *, seed: int) -> Load:
    """`senders` requests in flight for so long; once each without a time. Raises `RuntimeError` for an answer that is none."""
    taken, began, cpu = list[float](), time.perf_counter(), time.process_time()
    deadline = None if seconds is None else began + seconds
    bodies = prompts(arm.model, seed)
    await asyncio.gather(*(_send(arm, bodies, taken, deadline) for _ in range(senders)))
    return Load(tuple(taken), time.perf_counter() - began, time.process_time() - cpu)


def prompts(model: str, seed: int) -> Iterator[bytes]:
    """Bodies without end; the same for the same seed, each the beginning of a conversation."""
    for number in count():
        asked = f"Customer {seed}-{number} wants to know what became of order {17 + number % 80}; please look it up."
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": asked}]
        yield json.dumps({"model": model, "messages": messages, "max_tokens": 64}).encode()


async def _send(arm: Arm, bodies: Iterator[bytes], taken: list[float], deadline: float | None) -> None:
    line = await Line.open(arm.url, PATH, arm.headers)
    while True:
        began = time.perf_counter()
        status, body = await line.post(next(bodies))
        ended = time.perf_counter()
        if status != OK:
            raise RuntimeError(f"{arm.url} answered {status}: {body[:300]!r}")
        taken.append(ended - began)
        if deadline is None or ended > deadline:
            line.close()
            return


def as_report(at_once: Mapping[str, float], slow: Mapping[str, float]) -> dict[str, Any]:
    """The keys of reports/swap.json: the cost where only ours counts, the share where the engine takes 50 ms."""
    return {
        "gateway_cpu_ms": slow["gateway_cpu_ms"],
        "gateway_added_ms_p50": at_once["gateway_added_ms_p50"],
        "gateway_added_ms_p99": at_once["gateway_added_ms_p99"],
        "throughput_ratio_50ms": slow["throughput_ratio"],
    }
