"""Probes and metrics need no key and tell the truth."""

from __future__ import annotations

from agents.scripted import ScriptedEngine


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

    for line in (
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
