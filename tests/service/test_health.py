"""Probes and metrics need no key and tell the truth."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agents.scripted import ScriptedEngine
from bank.pulse import Pulse


async def test_probes_answer_without_a_key(serve):
    async with serve() as service:
        for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
            assert (await service.client.get(path, headers={"Authorization": ""})).status_code == 200


async def test_metrics_count_runs_rewards_feedback_and_bank_by_version(serve, gold):
    task_id, script = gold()
    async with serve(ScriptedEngine(script)) as service:
        run = (await service.client.post("/v1/agent/runs", json={"task_id": task_id})).json()
        await service.client.post("/feedback", json={"episode_id": run["id"], "value": 1})
        await service.client.post("/feedback", json={"episode_id": run["id"], "value": 1, "metric": "any.name"})
        text = (await service.client.get("/metrics")).text

    turns = len(run["steps"])
    for line in (
        f'ratchet_steps_total{{policy="base"}} {turns:.1f}',
        "ratchet_tool_errors_total 0.0",
        "ratchet_outbox_waiting 1.0",
        'ratchet_rounds{status="queued"} 0.0',
        'ratchet_replica_ready{replica="local"} 1.0',
        'ratchet_swaps{result="promoted"} 1.0',
        'ratchet_runs_total{policy="base",stop_reason="finished"} 1.0',
        'ratchet_run_reward_sum{policy="base"} 1.0',
        'ratchet_feedback_total{metric="success"} 1.0',
        'ratchet_feedback_total{metric="other"} 1.0',
        'ratchet_bank_size{kind="experiences"} 1.0',
        "ratchet_deployment_generation 1.0",
        'ratchet_http_requests_total{method="POST",route="/v1/agent/runs",status="201"} 1.0',
    ):
        assert line in text


async def test_bank_counts_episodes_successes_and_experiences(serve, gold):
    task_id, script = gold()
    async with serve(ScriptedEngine(script)) as service:
        for body in ({"task_id": task_id}, {"input": "order 17"}):
            await service.client.post("/v1/agent/runs", json=body)

        assert (await service.client.get("/v1/bank")).json() == {
            "episodes": 2,
            "successes": 1,
            "experiences": 1,
            "indexed": 0,
        }


async def test_a_queue_is_healthy_while_somebody_takes_tasks_from_it(serve):
    async with serve() as service:
        assert (await _queues(service)).status_code == 503
        await _beat(service, "rounds", 0)
        await _beat(service, "relay", 30)
        answer = await _queues(service)
        assert answer.status_code == 200
        assert [queue["served"] for queue in answer.json()["queues"]] == [True, True]
        assert 'ratchet_queue_age_seconds{queue="relay"} 3' in (await service.client.get("/metrics")).text


async def test_a_queue_that_nobody_takes_from_is_named(serve):
    async with serve() as service:
        await _beat(service, "rounds", 0)
        await _beat(service, "relay", 100)
        answer = await _queues(service)
        assert answer.status_code == 503
        assert answer.json()["error"]["code"] == "queue_silent"
        assert answer.json()["error"]["message"].endswith(": relay")


async def _queues(service):
    return await service.client.get("/healthz/queues", headers={"Authorization": ""})


async def _beat(service, queue, seconds_ago):
    at = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    service.write(lambda books: books.pulses.beat(Pulse(queue, "here", at)))
