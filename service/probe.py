"""Probe: proof that a loaded version is the one that was trained, and not the base under its name.

An engine can list an adapter and still answer like the base (renamed keys, disjoint target modules). So the trainer
stores its own greedy answer in the manifest, and a replica must repeat it, log-probabilities included.
"""

from __future__ import annotations

from collections.abc import Sequence

from agents.adapter import AdapterRef, Probe
from agents.engine import GenerateRequest, Generation, Sampling
from agents.environment import Environment
from service.replica import Replica

RESOLUTION = 1e-6
"""Nats. Below this an adapter can't be told from the base by its log-probabilities."""
DISTANCE_RATIO = 3.0
"""How much nearer to the trainer's log-probabilities than to the base's the answer must be."""


class ProbeFailed(Exception):
    """The replica answers, but not as the trained version does."""


async def probe(replica: Replica, adapter: AdapterRef, expected: Probe, suite: Environment, tolerance: float) -> None:
    """Ask the fixed prompt greedily and compare. `tolerance` in nats. Raises `ProbeFailed` or `EngineFault`."""
    try:
        session = suite.reset(suite.task(expected.task_id))
    except KeyError:
        raise ProbeFailed(f"the probe's task {expected.task_id} is not in {suite.name}") from None
    sampling = Sampling(temperature=0.0, max_tokens=max(1, len(expected.sampled_ids)))
    request = GenerateRequest(adapter.name, tuple(session.opening), session.tools, sampling)
    _compare(await replica.generate(request), expected, tolerance)


def _compare(answer: Generation, expected: Probe, tolerance: float) -> None:
    if answer.prompt_ids != expected.prompt_ids:
        raise ProbeFailed("the engine renders the probe's prompt to other tokens than the trainer did")
    if answer.sampled_ids != expected.sampled_ids:
        raise ProbeFailed("the engine's greedy answer to the probe is not the trainer's")
    to_trained = _distance(answer.logprobs, expected.logprobs)
    to_base = _distance(answer.logprobs, expected.base_logprobs)
    if not to_trained <= tolerance:
        raise ProbeFailed(f"log-probabilities are {to_trained:.2g} nats from the trainer's, allowed {tolerance:.2g}")
    if not to_base > max(RESOLUTION, DISTANCE_RATIO * to_trained):
        raise ProbeFailed(f"log-probabilities are those of the base model ({to_base:.2g} nats apart)")


def _distance(left: Sequence[float], right: Sequence[float]) -> float:
    """Largest difference, nats; infinite when there is nothing to compare or the lengths differ."""
    if not left or len(left) != len(right):
        return float("inf")
    return max(abs(a - b) for a, b in zip(left, right, strict=True))
