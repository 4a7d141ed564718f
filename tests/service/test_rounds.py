"""Rounds through HTTP: a row first, then a wake-up call."""

from __future__ import annotations

from datetime import UTC, datetime

from bank.round import RoundStep
from service.jobs import JobsAway, MemoryJobs


async def test_started_round_is_on_disk_and_announced_by_name_and_id(serve):
    async with serve() as service:
        answer = await service.client.post("/v1/rounds", json={"config": {"steps": 3}})
        row = service.read(lambda books: books.rounds.get(answer.json()["id"]))

        assert (answer.status_code, answer.json()["status"]) == (202, "queued")
        assert (row.slot, dict(row.config)) == (f"manual-{row.id}", {"steps": 3})
        assert service.jobs.sent == [row.id]
        assert (await service.client.get("/v1/audit?limit=1")).json()["audit"][0]["action"] == "round.started"


async def test_round_needs_no_body(serve):
    async with serve() as service:
        assert (await service.client.post("/v1/rounds")).status_code == 202


async def test_queue_that_is_away_loses_no_round(serve):
    class Away(MemoryJobs):
        def run_round(self, round_id):
            raise JobsAway(f"no broker for {round_id}")

    async with serve(jobs=Away()) as service:
        answer = await service.client.post("/v1/rounds", json={})

        assert answer.status_code == 202
        assert service.read(lambda books: books.rounds.latest(5))[0].id == answer.json()["id"]


async def test_progress_shows_steps_and_survives_numbers_that_are_none(serve):
    async with serve() as service:
        round_id = (await service.client.post("/v1/rounds", json={})).json()["id"]
        now = datetime.now(UTC)

        def work(books):
            claimed = books.rounds.claim(now, 60.0, 3)
            books.rounds.record(round_id, claimed.fence, phase="steps")
            books.rounds.add_step(RoundStep(round_id, 0, 32, {"reward": 0.25, "kl": 1.5}, now), claimed.fence)

        service.write(work)
        body = (await service.client.get(f"/v1/rounds/{round_id}")).json()

        assert (body["status"], body["phase"], body["attempts"]) == ("running", "steps", 1)
        assert [(step["step"], step["rollouts"], step["metrics"]) for step in body["steps"]] == [
            (0, 32, {"reward": 0.25, "kl": 1.5})
        ]


async def test_cancel_ends_a_queued_round_and_asks_a_running_one(serve):
    async with serve() as service:
        running, queued = [(await service.client.post("/v1/rounds", json={})).json()["id"] for _ in range(2)]
        service.write(lambda books: books.rounds.claim(datetime.now(UTC), 60.0, 3))
        answers = [(await service.client.post(f"/v1/rounds/{one}/cancel", json={})).json() for one in (running, queued)]
        listed = (await service.client.get("/v1/rounds")).json()["rounds"]

        assert [answer["status"] for answer in answers] == ["cancelling", "cancelled"]
        assert [row["id"] for row in listed] == [queued, running]
