"""Feedback through HTTP: durable, idempotent, retractable, and only trusted success becomes experience."""

from __future__ import annotations

import asyncio

import pytest

from agents.scripted import ScriptedEngine
from bank.episode import Split


@pytest.fixture
def acting(hermes):
    """An engine whose runs use a tool, so that they are worth remembering."""
    return ScriptedEngine([hermes("get_order", order="17"), "done"])


async def _run(service, headers=None, **body) -> str:
    answer = await service.client.post("/v1/agent/runs", json=body or {"input": "order 17"}, headers=headers)
    return answer.json()["id"]


def _experiences(service) -> int:
    return service.read(lambda books: books.experiences.count())


async def test_feedback_is_stored_when_it_is_acknowledged(serve):
    async with serve() as service:
        episode = await _run(service)
        sent = {"episode_id": episode, "value": 0.25, "metric": "tone", "comment": "müde 😀"}
        answer = await service.client.post("/feedback", json=sent)
        stored = service.read(lambda books: books.feedback.get(answer.json()["id"]))

        assert answer.status_code == 201
        assert (stored.value, stored.metric, stored.comment) == (0.25, "tone", "müde 😀")
        assert (await service.client.get(f"/v1/agent/runs/{episode}")).json()["feedback"] == [answer.json()]


@pytest.mark.parametrize(
    ("given", "value"),
    [({"thumbs": "up"}, 1.0), ({"thumbs": "down"}, 0.0), ({"value": 1}, 1.0), ({"value": 0}, 0.0)],
)
async def test_thumbs_and_whole_numbers_are_values(serve, given, value):
    async with serve() as service:
        answer = await service.client.post("/feedback", json={"episode_id": await _run(service), **given})

        assert answer.json()["value"] == value


async def test_negative_zero_is_stored_as_zero(serve):
    async with serve() as service:
        content = f'{{"episode_id": "{await _run(service)}", "value": -0.0}}'
        answer = await service.client.post("/feedback", content=content, headers={"content-type": "application/json"})

        assert answer.status_code == 201
        assert str(answer.json()["value"]) == "0.0"


async def test_concurrent_twins_have_one_effect_and_one_reply(serve):
    async with serve() as service:
        sent = {"episode_id": await _run(service), "value": 1, "idempotency_key": "k" * 255}
        answers = await asyncio.gather(*(service.client.post("/feedback", json=sent) for _ in range(30)))
        changed = await service.client.post("/feedback", json={**sent, "value": 0})
        stored = service.read(lambda books: books.feedback.of_episode(sent["episode_id"]))

        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.text for answer in answers}) == 1
        assert (changed.status_code, changed.json()["error"]["code"]) == (409, "idempotency_conflict")
        assert len(stored) == 1


async def test_same_key_of_another_rater_is_another_feedback(serve, keys):
    async with serve() as service:
        sent = {"episode_id": await _run(service, keys["user"]), "value": 1, "idempotency_key": "same"}
        answers = [
            await service.client.post("/feedback", json=sent, headers=keys[name]) for name in ("user", "operator")
        ]

        assert answers[0].json()["id"] != answers[1].json()["id"]


async def test_operators_success_becomes_experience_and_its_retraction_withdraws_it(serve, acting):
    async with serve(acting) as service:
        episode = await _run(service)
        given = (await service.client.post("/feedback", json={"episode_id": episode, "value": 1})).json()
        after_praise = _experiences(service)
        retracted = await service.client.delete(f"/feedback/{given['id']}")
        again = await service.client.delete(f"/feedback/{given['id']}")

        assert (given["trusted"], after_praise) == (True, 1)
        assert retracted.json()["retracted_at"] is not None
        assert again.json() == retracted.json()
        assert _experiences(service) == 0


async def test_retraction_keeps_an_experience_that_others_vouch_for(serve, acting, gold):
    async with serve(acting) as service:
        episode = await _run(service)
        rows = [
            (await service.client.post("/feedback", json={"episode_id": episode, "value": 1})).json()["id"]
            for _ in range(2)
        ]
        await service.client.delete(f"/feedback/{rows[0]}")
        one_left = _experiences(service)
        await service.client.delete(f"/feedback/{rows[1]}")

        assert (one_left, _experiences(service)) == (1, 0)

    task_id, script = gold()
    async with serve(ScriptedEngine(script)) as service:
        episode = await _run(service, task_id=task_id)
        row = (await service.client.post("/feedback", json={"episode_id": episode, "value": 1})).json()["id"]
        await service.client.delete(f"/feedback/{row}")

        assert _experiences(service) == 1


async def test_users_word_creates_experience_only_where_users_are_trusted(serve, acting, keys):
    for settings, expected in (({}, 0), ({"trusted_role": "user"}, 1)):
        async with serve(acting, **settings) as service:
            before = _experiences(service)
            episode = await _run(service, keys["user"])
            sent = {"episode_id": episode, "value": 1}
            answer = await service.client.post("/feedback", json=sent, headers=keys["user"])

            assert answer.json()["trusted"] is bool(expected)
            assert _experiences(service) - before == expected


@pytest.mark.parametrize("verdict", [{"value": 0.99}, {"value": 1, "metric": "tone"}])
async def test_less_than_success_creates_no_experience(serve, acting, verdict):
    async with serve(acting) as service:
        await service.client.post("/feedback", json={"episode_id": await _run(service), **verdict})

        assert _experiences(service) == 0


async def test_praise_of_a_held_out_run_is_stored_but_never_enters_the_bank(serve, gold):
    task_id, script = gold(Split.HELD_OUT)
    async with serve(ScriptedEngine(script)) as service:
        episode = await _run(service, task_id=task_id)
        answer = await service.client.post("/feedback", json={"episode_id": episode, "value": 1})

        assert answer.status_code == 201
        assert _experiences(service) == 0


async def test_unknown_and_foreign_episodes_look_the_same(serve, keys):
    async with serve() as service:
        mine = await _run(service, keys["user"])
        answers = [
            await service.client.post("/feedback", json={"episode_id": episode, "value": 1}, headers=keys["stranger"])
            for episode in (mine, "ep_nothing")
        ]

        assert [answer.status_code for answer in answers] == [404, 404]
        assert answers[0].json()["error"] == answers[1].json()["error"]
        assert answers[0].json()["error"]["code"] == "unknown_episode"
        assert service.read(lambda books: books.feedback.of_episode(mine)) == ()


async def test_feedback_of_others_can_not_be_retracted(serve, keys):
    async with serve() as service:
        sent = {"episode_id": await _run(service, keys["user"]), "value": 1}
        row = (await service.client.post("/feedback", json=sent, headers=keys["user"])).json()["id"]
        foreign = await service.client.delete(f"/feedback/{row}", headers=keys["stranger"])
        unknown = await service.client.delete("/feedback/fb_nothing", headers=keys["stranger"])

        assert foreign.status_code == unknown.status_code == 404
        assert foreign.json()["error"] == unknown.json()["error"]
        assert service.read(lambda books: books.feedback.get(row)).retracted_at is None


async def test_feedback_right_after_the_reply_always_finds_its_episode(serve):
    async with serve() as service:

        async def reply_then_feedback(number: int) -> int:
            episode = await _run(service, input=f"order {number}")
            return (await service.client.post("/feedback", json={"episode_id": episode, "value": 1})).status_code

        assert set(await asyncio.gather(*(reply_then_feedback(number) for number in range(40)))) == {201}
