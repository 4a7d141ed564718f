"""Nothing unreadable gets past the door: always 4xx, always the one shape, nothing stored."""

from __future__ import annotations

import json

import pytest

JSON = {"content-type": "application/json"}
MIB = 1024 * 1024


def _error(answer) -> str:
    """The code; fails unless the body has the one shape and is strict JSON."""

    def refuse(constant):
        raise AssertionError(constant)

    body = json.loads(answer.content, parse_constant=refuse)
    assert set(body) == {"error", "request_id"}
    assert set(body["error"]) == {"code", "message", "detail"}
    assert body["request_id"] == answer.headers["x-request-id"]
    return body["error"]["code"]


BAD_FEEDBACK = [
    ("NaN", "invalid_number"),
    ("-NaN", "invalid_json"),
    ("Infinity", "invalid_number"),
    ("-Infinity", "invalid_number"),
    ("1e400", "invalid_number"),
    ("-1e400", "invalid_number"),
    ("1e308", "invalid_request"),
    ("1.0000001", "invalid_request"),
    ("-0.0000001", "invalid_request"),
    ("2", "invalid_request"),
    ('"0.5"', "invalid_request"),
    ('"NaN"', "invalid_request"),
    ("true", "invalid_request"),
    ("false", "invalid_request"),
    ("null", "invalid_request"),
    ("[1]", "invalid_request"),
    ("{}", "invalid_request"),
    ("9" * 5000, "invalid_json"),
    ("0.5,", "invalid_json"),
    ('0.5, "value": 0.7', "duplicate_key"),
    ('0.5, "thumbs": "up"', "invalid_request"),
    ('0.5, "reward": 1', "invalid_request"),
    ('0.5, "comment": "a\\u0000b"', "invalid_text"),
    ('0.5, "comment": "\\ud800"', "invalid_text"),
    ('0.5, "\\ud800": "x"', "invalid_text"),
    ('0.5, "metric": "drop table"', "invalid_request"),
    ('0.5, "idempotency_key": "%s"' % ("k" * 256), "invalid_request"),
    ('0.5, "idempotency_key": ""', "invalid_request"),
    ('0.5, "comment": "%s"' % ("c" * 10_001), "invalid_request"),
]
"""What stands for the value, and the code of its refusal."""


async def test_bad_feedback_is_refused_and_not_stored(serve):
    async with serve() as service:
        episode = (await service.client.post("/v1/agent/runs", json={"input": "order 17"})).json()["id"]
        refused = {}
        for value, _ in BAD_FEEDBACK:
            content = f'{{"episode_id": "{episode}", "value": {value}}}'
            answer = await service.client.post("/feedback", content=content, headers=JSON)
            refused[value] = _error(answer) if answer.status_code in (400, 422) else answer.status_code

        assert refused == dict(BAD_FEEDBACK)
        assert service.read(lambda books: books.feedback.of_episode(episode)) == ()


BAD_RUNS = [
    (b"", 422, "invalid_request"),
    (b"{", 400, "invalid_json"),
    (b"\xff\xfe{}", 400, "invalid_json"),
    (b'{"input": "\xed\xa0\x80"}', 400, "invalid_json"),
    (b"[" * 100_000, 400, "invalid_json"),
    (b"[]", 422, "invalid_request"),
    (b'"text"', 422, "invalid_request"),
    (b"{}", 422, "invalid_request"),
    (b'{"input": ""}', 422, "invalid_request"),
    (b'{"input": "  "}', 422, "invalid_request"),
    (b'{"input": "a", "task_id": "b"}', 422, "invalid_request"),
    (b'{"input": 17}', 422, "invalid_request"),
    (b'{"input": "a", "input": "a"}', 422, "duplicate_key"),
    (b'{"input": "a", "policy": "base"}', 422, "invalid_request"),
    (b'{"input": "a", "stream": "yes"}', 422, "invalid_request"),
    (b'{"input": "a", "limits": {"steps": 0}}', 422, "invalid_request"),
    (b'{"input": "a", "limits": {"steps": 65}}', 422, "invalid_request"),
    (b'{"input": "a", "limits": {"steps": 2.0}}', 422, "invalid_request"),
    (b'{"input": "a", "limits": {"steps": true}}', 422, "invalid_request"),
    (b'{"input": "a", "limits": {"seconds": 0}}', 422, "invalid_request"),
    (b'{"input": "a", "limits": {"seconds": 1e9}}', 422, "invalid_request"),
    (b'{"input": "a", "limits": {"tokens": 1000000}}', 422, "invalid_request"),
    (b'{"input": "a", "limits": {"steps": 1, "steps": 2}}', 422, "duplicate_key"),
    (b'{"input": "a", "sampling": {"temperature": -1}}', 422, "invalid_request"),
    (b'{"input": "a", "sampling": {"temperature": NaN}}', 422, "invalid_number"),
    (b'{"input": "a", "sampling": {"top_p": 0}}', 422, "invalid_request"),
    (b'{"input": "a", "sampling": {"seed": -1}}', 422, "invalid_request"),
    (b'{"input": "a", "sampling": {"seed": 9223372036854775808}}', 422, "invalid_request"),
    (b'{"task_id": "order_desk-0/train/9999"}', 404, "unknown_task"),
    (b'{"task_id": "order_desk-1/train/0000"}', 404, "unknown_task"),
    (b'{"input": "a", "environment": "no_such:1"}', 404, "unknown_environment"),
    (b'{"input": "a", "environment": "order_desk:-1"}', 404, "unknown_environment"),
]


async def test_bad_run_is_refused_and_not_stored(serve):
    async with serve() as service:
        answers = [await service.client.post("/v1/agent/runs", content=body, headers=JSON) for body, _, _ in BAD_RUNS]
        refused = [
            (body, answer.status_code, _error(answer)) for (body, _, _), answer in zip(BAD_RUNS, answers, strict=True)
        ]

        assert refused == BAD_RUNS
        assert service.episodes() == ()


async def test_body_of_ten_megabytes_is_refused_by_length_and_by_count(serve):
    async def chunks():
        for _ in range(160):
            yield b" " * (MIB // 16)

    async with serve() as service:
        known = await service.client.post("/feedback", content=b" " * (10 * MIB), headers=JSON)
        chunked = await service.client.post("/feedback", content=chunks(), headers=JSON)

        assert [(answer.status_code, _error(answer)) for answer in (known, chunked)] == [(413, "body_too_large")] * 2


async def test_body_of_exactly_the_limit_is_read(serve):
    async with serve() as service:
        content = b'{"input": "order 17"}'.ljust(MIB)
        assert (await service.client.post("/v1/agent/runs", content=content, headers=JSON)).status_code == 201
        answer = await service.client.post("/v1/agent/runs", content=content + b" ", headers=JSON)

        assert (answer.status_code, _error(answer)) == (413, "body_too_large")
        assert len(service.episodes()) == 1


async def test_unescaped_emoji_and_escaped_pair_are_the_same_text(serve):
    async with serve() as service:
        for content in ('{"input": "😀"}', '{"input": "\\ud83d\\ude00"}'):
            await service.client.post("/v1/agent/runs", content=content.encode(), headers=JSON)

        assert {episode.task for episode in service.episodes()} == {"😀"}


@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded"])
async def test_other_media_types_are_no_json(serve, media):
    async with serve() as service:
        headers = {"content-type": media}
        answer = await service.client.post("/v1/agent/runs", content=b'{"input": "a"}', headers=headers)

        assert (answer.status_code, _error(answer)) == (422, "invalid_request")


NOWHERE = [
    ("GET", "/nowhere", 404, "not_found"),
    ("PUT", "/v1/agent/runs", 405, "method_not_allowed"),
    ("GET", "/v1/agent/runs/ep_x", 404, "unknown_run"),
    ("GET", "/v1/agent/runs/%00", 422, "invalid_record"),
    ("DELETE", "/feedback/fb_x", 404, "unknown_feedback"),
    ("GET", "/v1/rounds/rnd_x", 404, "not_found"),
    ("POST", "/v1/rounds/rnd_x/cancel", 404, "not_found"),
    ("GET", "/v1/checkpoints/student-x", 404, "unknown_checkpoint"),
    ("DELETE", "/v1/keys/key_x", 404, "unknown_key"),
    ("GET", "/v1/agent/runs?limit=0", 422, "invalid_request"),
    ("GET", "/v1/agent/runs?limit=201", 422, "invalid_request"),
    ("GET", "/v1/agent/runs?limit=x", 422, "invalid_request"),
]


async def test_unknown_places_have_the_one_error_shape(serve):
    async with serve() as service:
        answers = [await service.client.request(method, path) for method, path, _, _ in NOWHERE]
        refused = [
            (method, path, answer.status_code, _error(answer))
            for (method, path, _, _), answer in zip(NOWHERE, answers, strict=True)
        ]

        assert refused == NOWHERE


async def test_bug_answers_500_in_the_one_shape_without_internals(serve):
    async with serve() as service:

        @service.app.get("/healthz/bug")
        async def bug():
            raise ZeroDivisionError("secret detail")

        answer = await service.client.get("/healthz/bug")

        assert (answer.status_code, _error(answer)) == (500, "internal")
        assert "secret" not in answer.text


async def test_error_never_echoes_the_refused_value(serve):
    async with serve() as service:
        content = b'{"episode_id": "ep_x", "value": "my secret", "s\xc3\xa4cret": 1}'
        answer = await service.client.post("/feedback", content=content, headers=JSON)

        assert answer.status_code == 422
        assert "my secret" not in answer.text


async def test_callers_request_id_comes_back_unless_it_is_unfit(serve):
    async with serve() as service:
        kept = await service.client.get("/healthz", headers={"x-request-id": "trace-1"})
        replaced = await service.client.get("/healthz", headers={"x-request-id": "a b" * 100})

        assert kept.headers["x-request-id"] == "trace-1"
        assert replaced.headers["x-request-id"].startswith("req_")
