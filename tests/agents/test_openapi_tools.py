"""Operations of an HTTP API as tools."""

import asyncio
import json
from typing import Annotated

import pytest
import uvicorn
from fastapi import FastAPI, Header, HTTPException
from pydantic import BaseModel

from agents.tools.check import CallCheck, ToolError
from agents.tools.openapi_tools import OpenApiTools, inlined, operations_of
from bank.message import ToolCall

api = FastAPI()


class Note(BaseModel):
    """Body."""

    text: str
    urgent: bool = False


@api.get("/orders/{order}", operation_id="getOrder", summary="One order.")
def get_order(order: str, verbose: bool = False, x_token: Annotated[str, Header()] = ""):
    if order == "missing":
        raise HTTPException(404, "no such order")
    return {"order": order, "verbose": verbose, "token": x_token}


@api.post("/orders/{order}/notes", operation_id="addNote")
def add_note(order: str, note: Note):
    return {"order": order, **note.model_dump()}


@api.get("/away", operation_id="away")
def away():
    raise HTTPException(302, headers={"Location": "http://127.0.0.1:1/"})


@api.get("/secret", operation_id="secret")
def secret():
    return "secret"


@pytest.fixture
async def tools():
    server = uvicorn.Server(uvicorn.Config(api, port=0, log_config=None))
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    allow = ["getOrder", "addNote", "away"]
    made = OpenApiTools.of(api.openapi(), f"http://127.0.0.1:{port}", allow, {"X-Token": "t"}, private=True)
    yield made
    await made.close()
    server.should_exit = True
    await running


def test_operations_become_checked_tools():
    specs = {operation.spec.name: operation.spec for operation in operations_of(api.openapi())}
    check = CallCheck(tuple(specs.values()))
    good = {"order": "17", "text": "hi", "urgent": True}
    assert check.arguments(ToolCall("c", "addNote", json.dumps(good))) == good
    with pytest.raises(ToolError, match="missing text"):
        check.arguments(ToolCall("c", "addNote", '{"order": "17"}'))
    assert specs["getOrder"].description == "One order."


async def test_arguments_go_where_the_description_says(tools):
    assert [spec.name for spec in tools.specs] == ["getOrder", "addNote", "away"]
    found = json.loads(await tools.call("getOrder", {"order": "17", "verbose": True}))
    assert found == {"order": "17", "verbose": True, "token": "t"}
    assert json.loads(await tools.call("addNote", {"order": "1", "text": "é漢"}))["text"] == "é漢"


async def test_an_error_status_goes_back_to_the_model(tools):
    with pytest.raises(ToolError, match=r"getOrder answered 404: .*no such order"):
        await tools.call("getOrder", {"order": "missing"})


async def test_redirects_are_not_followed_with_the_operators_headers(tools):
    with pytest.raises(ToolError, match="away answered 302"):
        await tools.call("away", {})


@pytest.mark.parametrize("order", ["../secret", "a/../../secret", "..", "%2e%2e", "?x=1", "#", "a\\..\\b"])
async def test_an_argument_can_not_climb_to_another_path(tools, order):
    try:
        answer = await tools.call("getOrder", {"order": order})
    except ToolError:
        return
    assert "secret" not in answer or json.loads(answer)["order"] == order


async def test_a_header_argument_can_not_bring_a_second_header(tools):
    with pytest.raises(ToolError, match="not a header's value"):
        await tools.call("getOrder", {"order": "17", "x-token": "a\r\nHost: evil"})


def test_an_operation_that_does_not_exist_is_a_mistake():
    with pytest.raises(ValueError, match="no operation fly; operations: addNote, away, getOrder, secret"):
        OpenApiTools.of(api.openapi(), "http://example.com", ["fly"], {}, private=False)


@pytest.mark.parametrize("path", ["//evil.example/x", "http://evil.example/x"])
def test_a_path_that_leads_to_another_host_is_a_mistake(path):
    with pytest.raises(ValueError, match="is no path of this API"):
        list(operations_of({"paths": {path: {"get": {"operationId": "x"}}}}))


def test_references_are_followed_inside_and_never_outside():
    document = {"a": {"b": {"$ref": "#/c"}}, "c": {"type": "string"}, "loop": {"items": {"$ref": "#/loop"}}}
    assert inlined(document["a"], document) == {"b": {"type": "string"}}
    assert "items" in inlined(document["loop"], document)
    with pytest.raises(ValueError, match="only references into the description itself"):
        inlined({"$ref": "http://169.254.169.254/x"}, document)
    with pytest.raises(ValueError, match="names nothing"):
        inlined({"$ref": "#/nowhere"}, document)
