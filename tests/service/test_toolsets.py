"""Runs with the operator's tools; results that are too long for a prompt."""

import json
import sys

import pytest

from agents.scripted import ScriptedEngine
from service.settings import SettingsError, read_settings


@pytest.fixture
def tools(tmp_path):
    file = tmp_path / "tools.json"
    functions = [f"tests.agents.example_tools:{name}" for name in ("convert", "long")]
    away = {"mcp": {"command": ["/no/such/server"], "allow": ["*"]}}
    file.write_text(json.dumps({"weights": {"python": {"functions": functions}}, "away": away}))
    return file


async def test_a_run_works_with_a_toolset(serve, hermes, tools, keys):
    engine = ScriptedEngine([hermes("convert", amount=2), "Two kilograms."])
    async with serve(engine, tools=tools) as service:
        listed = await service.client.get("/v1/toolsets", headers=keys["user"])
        assert listed.json() == {"toolsets": ["away", "weights"]}
        sent = {"input": "convert two", "toolset": "weights"}
        run = (await service.client.post("/v1/agent/runs", json=sent, headers=keys["user"])).json()
    assert run["output"] == "Two kilograms."
    assert run["steps"][0]["observations"][0]["content"] == "2 kg"


async def test_a_long_result_stays_whole_outside_the_prompt(serve, hermes, tools, keys):
    engine = ScriptedEngine([hermes("long", characters=10_000_000), "Much."])
    async with serve(engine, tools=tools) as service:
        sent = {"input": "read it", "toolset": "weights"}
        run = (await service.client.post("/v1/agent/runs", json=sent, headers=keys["user"])).json()
        call = run["steps"][0]["reply"]["tool_calls"][0]["id"]
        assert len(run["steps"][0]["observations"][0]["content"]) == 4000
        assert max(len(message.content) for request in engine.requests for message in request.messages) == 4000
        path = f"/v1/agent/runs/{run['id']}/results/{call}"
        whole = await service.client.get(path, headers=keys["user"])
        assert len(whole.json()["text"]) == 1_000_000
        for wrong, key in [(path, "stranger"), (path + "x", "user"), (path.replace("ep_", "ep_x"), "user")]:
            assert (await service.client.get(wrong, headers=keys[key])).status_code == 404
        assert "ratchet_tool_results_cut_total 1.0" in (await service.client.get("/metrics")).text


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"input": "x", "toolset": "nothing"}, (404, "unknown_toolset")),
        ({"input": "x", "toolset": "away"}, (503, "toolset_unavailable")),
        ({"input": "x", "toolset": "weights", "environment": "order_desk:0"}, (422, "invalid_request")),
        ({"task_id": "x", "toolset": "weights"}, (422, "invalid_request")),
    ],
)
async def test_a_toolset_that_can_not_be_used_is_refused(serve, tools, sent, expected):
    async with serve(tools=tools) as service:
        answer = await service.client.post("/v1/agent/runs", json=sent)
        assert (answer.status_code, answer.json()["error"]["code"]) == expected
        assert service.episodes() == ()


def test_a_wrong_file_stops_the_start_and_names_the_setting(tmp_path, monkeypatch):
    file = tmp_path / "tools.json"
    file.write_text('{"x": {}}')
    monkeypatch.setenv("RATCHET_TOOLS", str(file))
    with pytest.raises(SettingsError, match=r"RATCHET_TOOLS: .*exactly one of mcp, openapi, python, code"):
        read_settings()


async def test_a_run_works_with_a_reference_server_of_the_protocol(serve, hermes, tmp_path):
    file = tmp_path / "tools.json"
    command = [sys.executable, "-m", "mcp_server_time", "--local-timezone", "UTC"]
    file.write_text(json.dumps({"clock": {"mcp": {"command": command, "allow": ["convert_time"]}}}))
    asked = {"source_timezone": "Europe/Vienna", "time": "16:30", "target_timezone": "Asia/Tokyo"}
    engine = ScriptedEngine([hermes("get_current_time", timezone="UTC") + hermes("convert_time", **asked), "Late."])
    async with serve(engine, tools=file) as service:
        run = (await service.client.post("/v1/agent/runs", json={"input": "when?", "toolset": "clock"})).json()
    assert [tool.name for tool in engine.requests[0].tools] == ["convert_time"]
    refused, converted = [message["content"] for message in run["steps"][0]["observations"]]
    assert "unknown tool" in refused
    assert json.loads(converted)["target"]["timezone"] == "Asia/Tokyo"
    assert run["stop_reason"] == "finished"
