"""Traffic: many runs at a time through POST /v1/agent/runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx

from agents.environment import Task

CONCURRENCY = 64
TIMEOUT_SECONDS = 300.0
SUCCESS = 1.0
LIMITS = {"steps": 8, "tokens": 256}
MAX_TOKENS = 64


@dataclass(frozen=True, slots=True)
class Request:
    """One run to ask for; the seed makes it repeatable."""

    task_id: str
    seed: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came back."""

    episode_id: str
    task_id: str
    reward: float
    checkpoint: str
    digest: str

    @property
    def success(self) -> bool:
        """Whether every check of the task held."""
        return self.reward >= SUCCESS


class TrafficFailed(Exception):
    """A run was not answered, or its answer was a fault; a demo with lost requests shows nothing."""


def requests_over(tasks: Sequence[Task], count: int, seed: int) -> list[Request]:
    """`count` runs that go round the tasks in order, each with a seed of its own."""
    return [Request(tasks[i % len(tasks)].id, seed * 1_000_003 + i) for i in range(count)]


async def play(
    url: str, key: str, requests: Sequence[Request], on_outcome: Callable[[Outcome], None], concurrency: int
) -> list[Outcome]:
    """All outcomes in the order of the requests. Raises `TrafficFailed`."""
    limits = httpx.Limits(max_connections=concurrency, max_keepalive_connections=concurrency)
    headers = {"Authorization": f"Bearer {key}"}
    outcomes: dict[int, Outcome] = {}
    queue = iter(enumerate(requests))
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=TIMEOUT_SECONDS) as http:
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(min(concurrency, len(requests))):
                    group.create_task(_client(http, queue, outcomes, on_outcome))
        except* (TrafficFailed, httpx.TransportError) as failures:
            raise TrafficFailed(str(failures.exceptions[0])) from failures
    return [outcomes[i] for i in range(len(requests))]


async def _client(
    http: httpx.AsyncClient,
    queue: Iterator[tuple[int, Request]],
    outcomes: dict[int, Outcome],
    on_outcome: Callable[[Outcome], None],
) -> None:
    for index, request in queue:
        outcomes[index] = await _run(http, request)
        on_outcome(outcomes[index])


async def _run(http: httpx.AsyncClient, request: Request) -> Outcome:
    sampling = {"temperature": 1.0, "seed": request.seed, "max_tokens": MAX_TOKENS}
    body = {"task_id": request.task_id, "limits": LIMITS, "sampling": sampling}
    response = await http.post("/v1/agent/runs", json=body)
    if response.is_error:
        raise TrafficFailed(f"POST /v1/agent/runs answered {response.status_code}: {response.text[:300]}")
    return read_outcome(response.json())


def read_outcome(episode: dict[str, Any]) -> Outcome:
    """The outcome of a finished run. Raises `TrafficFailed` for a fault."""
    if episode["fault"] is not None or episode["reward"] is None:
        raise TrafficFailed(f"run {episode['id']} of {episode['task_id']}: {episode['fault'] or 'nothing verified it'}")
    policy = episode["policy"]
    return Outcome(episode["id"], episode["task_id"], float(episode["reward"]), policy["checkpoint"], policy["digest"])
