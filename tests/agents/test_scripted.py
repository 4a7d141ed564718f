"""The scripted engine keeps the engines' contract and answers as written."""

from pathlib import Path

import pytest

from agents.adapter import AdapterRef
from agents.engine import EngineFault, GenerateRequest, Sampling
from agents.scripted import ScriptedEngine
from bank.message import Message, Role, ToolCall
from tests.agents.engine_contract import EngineContract, EngineRig

USER = (Message(Role.USER, "please refund order 17"),)
CALL = '<tool_call>\n{"name": "refund", "arguments": {"order": "17"}}\n</tool_call>'


class TestScriptedEngine(EngineContract):
    @pytest.fixture
    async def rig(self):
        engine = ScriptedEngine(lambda request: f"I am {request.version}. {CALL}")
        adapters = tuple(AdapterRef(f"student-{mark}", mark * 64, Path(mark)) for mark in "ab")
        yield EngineRig(engine, GenerateRequest("base", USER), adapters)
        await engine.close()


async def test_a_list_answers_by_turn_whatever_runs_at_the_same_time():
    engine = ScriptedEngine(["first", "second"])
    later = GenerateRequest("base", (*USER, Message(Role.ASSISTANT, "first"), Message(Role.USER, "and?")))
    assert (await engine.generate(later)).reply.content == "second"
    assert (await engine.generate(GenerateRequest("base", USER))).reply.content == "first"
    assert [request.messages for request in engine.requests] == [later.messages, USER]


async def test_a_list_that_ends_too_early_is_a_fault():
    with pytest.raises(EngineFault, match="the script ends before turn 0"):
        await ScriptedEngine([]).generate(GenerateRequest("base", USER))


async def test_tool_calls_are_read_from_the_text():
    generation = await ScriptedEngine([f"on it {CALL}"]).generate(GenerateRequest("base", USER))
    expected = (ToolCall("call_0", "refund", '{"order": "17"}'),)
    assert generation.reply == Message(Role.ASSISTANT, "on it", expected)
    assert generation.finish_reason == "stop"
    assert generation.sampled_ids[-1] == 0


async def test_a_reply_is_cut_at_the_token_limit():
    request = GenerateRequest("base", USER, sampling=Sampling(max_tokens=3))
    generation = await ScriptedEngine(["one two three"]).generate(request)
    assert (generation.reply.content, generation.finish_reason) == ("one two", "length")
    assert len(generation.sampled_ids) == 3


async def test_a_function_may_wait():
    async def answer(request: GenerateRequest) -> str:
        return request.messages[-1].content.upper()

    generation = await ScriptedEngine(answer).generate(GenerateRequest("base", USER))
    assert generation.reply.content == "PLEASE REFUND ORDER 17"
