"""Thin routes: cheaper, and otherwise like every other."""

from __future__ import annotations

import pytest
from fastapi import APIRouter
from fastapi.routing import APIRoute

from service.app import HOT
from service.thin import ThinRoute

JSON = {"content-type": "application/json"}


@pytest.mark.parametrize("route", [route for router in HOT for route in router.routes])
async def test_openapi_is_what_fastapi_would_say_of_the_same_endpoint(serve, route: APIRoute):
    ordinary = APIRouter()
    ordinary.add_api_route(
        "/as_usual" + route.path, route.endpoint, methods=list(route.methods), status_code=route.status_code,
        response_model=route.response_model, responses=route.responses, tags=route.tags,
        openapi_extra=route.openapi_extra,
    )  # fmt: skip
    async with serve() as service:
        service.app.include_router(ordinary)
        paths, verb = service.app.openapi()["paths"], min(route.methods).lower()

    assert isinstance(route, ThinRoute)
    assert {**paths[route.path][verb], "operationId": ""} == {
        **paths["/as_usual" + route.path][verb], "operationId": ""
    }  # fmt: skip


@pytest.mark.parametrize(
    ("headers", "content", "status"),
    [
        ({"content-type": "text/plain"}, b"{}", 422),
        ({"content-type": "application/x-www-form-urlencoded"}, b"a=b", 422),
        ({}, b"{}", 422),
        (JSON, b"", 422),
        (JSON, b"{", 400),
        ({"content-type": "application/merge-patch+json; charset=utf-8"}, b"[]", 422),
    ],
)
async def test_what_is_no_json_is_refused_in_the_one_shape(serve, headers, content, status):
    async with serve() as service:
        answer = await service.client.post("/feedback", content=content, headers=headers)

        assert answer.status_code == status
        assert answer.json()["request_id"] == answer.headers["x-request-id"]


async def test_other_methods_are_refused_as_before(serve):
    async with serve() as service:
        wrong = await service.client.get("/feedback")

        assert (wrong.status_code, wrong.json()["error"]["code"]) == (405, "method_not_allowed")


async def test_thin_requests_are_counted_by_route(serve):
    async with serve() as service:
        episode = (await service.client.post("/v1/agent/runs", json={"input": "a"})).json()["id"]
        await service.client.post("/feedback", json={"episode_id": episode, "value": 1})
        metrics = (await service.client.get("/metrics")).text

        assert 'ratchet_http_requests_total{method="POST",route="/feedback",status="201"} 1.0' in metrics


async def test_bug_in_a_thin_route_answers_500_without_internals(serve):
    async with serve() as service:
        service.state.feedback._books = None
        answer = await service.client.post("/feedback", json={"episode_id": "ep_x", "value": 1})

        assert (answer.status_code, answer.json()["error"]["code"]) == (500, "internal")
