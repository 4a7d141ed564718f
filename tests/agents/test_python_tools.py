"""Functions as tools: their schema, and that blocking ones run in processes that can be killed."""

import asyncio
import json
import threading
import time

import psutil
import pytest

from agents.engine import Sampling
from agents.environment import Task
from agents.loop import Run, run_episode
from agents.scripted import ScriptedEngine
from agents.tools.cap import WHOLE_CHARACTERS
from agents.tools.check import ToolError
from agents.tools.functions import tool_spec
from agents.tools.python_tools import PythonTools
from agents.tools.toolset import ToolSession
from agents.tools.workers import NoWorkerFree
from bank.episode import Split, StopReason
from bank.message import Message, Role
from tests.agents import example_tools as example


async def lookup(orders: list[int]) -> dict[str, int]:
    """Look orders up."""
    await asyncio.sleep(0)
    return {"größe": sum(orders)}


@pytest.fixture
async def tools_of():
    made = []

    def make(*functions, **options):
        made.append(PythonTools(functions, **options))
        return made[-1]

    yield make
    for tools in made:
        await tools.close()


def workers():
    return [child for child in psutil.Process().children() if "agents.tools.worker" in child.cmdline()]


def test_type_hints_are_the_schema_and_the_docstring_the_description():
    spec = tool_spec(example.convert)
    assert (spec.name, spec.description) == ("convert", "Convert a weight.")
    assert spec.parameters == {
        "type": "object",
        "properties": {
            "amount": {"type": "number"},
            "unit": {"type": "string", "enum": ["kg", "lb"], "default": "kg"},
            "note": {"type": "string", "description": "Why.", "default": ""},
        },
        "required": ["amount"],
        "additionalProperties": False,
    }


def test_a_parameter_without_a_hint_is_a_mistake():
    def bad(order):
        return order

    with pytest.raises(TypeError, match="parameter order has no type hint"):
        tool_spec(bad)


def test_a_parameter_that_has_no_name_for_the_model_is_a_mistake():
    def bad(*orders: str) -> None:
        pass

    with pytest.raises(TypeError, match="can't be given by name"):
        tool_spec(bad)


def test_a_blocking_function_that_no_other_process_finds_is_a_mistake():
    def hidden() -> None:
        pass

    with pytest.raises(TypeError, match="must be importable"):
        PythonTools([hidden])


async def test_sync_and_async_functions_are_called_alike(tools_of):
    tools = tools_of(example.convert, lookup)
    assert await tools.call("convert", {"amount": 2, "note": "heavy"}) == "2 kg heavy"
    assert await tools.call("lookup", {"orders": [1, 2]}) == '{"größe":3}'


async def test_arguments_arrive_as_the_types_of_the_hints(tools_of):
    assert await tools_of(example.move).call("move", {"address": {"city": "Oslo"}}) == "Oslo"


async def test_arguments_that_do_not_fit_are_a_tool_error(tools_of):
    with pytest.raises(ToolError, match="convert: Input should be a valid number"):
        await tools_of(example.convert).call("convert", {"amount": "many"})
    with pytest.raises(ToolError, match="lookup: Input should be a valid list"):
        await tools_of(lookup).call("lookup", {"orders": 1})


async def test_a_process_is_used_again_and_prints_of_a_tool_are_no_answer(tools_of, capfd):
    tools = tools_of(example.pid, example.chat)
    first = await tools.call("pid", {})
    assert await tools.call("chat", {"text": '{"text": "漢字"}\n\u2028'}) == '{"text": "漢字"}\n\u2028'
    assert await tools.call("pid", {}) == first
    assert capfd.readouterr().out == ""


async def test_blocking_calls_of_one_reply_overlap(tools_of):
    tools = tools_of(example.nap)
    await asyncio.gather(*(tools.call("nap", {"seconds": 0.1}) for _ in range(4)))  # so that processes are there
    reply = '<tool_call>{"name": "nap", "arguments": {"seconds": 1}}</tool_call>' * 4
    run = Run("ep", Task("live/1", "live", Split.LIVE, "go"), "base", "0", sampling=Sampling(max_tokens=1000))
    begun = time.monotonic()
    episode = await run_episode(ScriptedEngine([reply, "done"]), ToolSession(tools, "go", "Nap."), run)
    assert time.monotonic() - begun < 3.5
    assert [message.content for message in episode.turns[0].observations] == ["rested"] * 4
    assert (episode.stop_reason, episode.reward) == (StopReason.FINISHED, None)
    assert episode.opening == (Message(Role.SYSTEM, "Nap."), Message(Role.USER, "go"))


async def test_a_hundred_tools_that_hang_leave_no_thread_and_no_process(tools_of):
    tools = tools_of(example.block, seconds=0.5, workers=4)
    threads = threading.active_count()
    answers = await asyncio.gather(*(tools.call("block", {}) for _ in range(100)), return_exceptions=True)
    assert all(isinstance(answer, ToolError) for answer in answers)
    assert sum(isinstance(answer, NoWorkerFree) for answer in answers) == 96
    assert sum("gave no answer within 0.5 s" in str(answer) for answer in answers) == 4
    assert threading.active_count() == threads
    assert workers() == []


async def test_the_loop_stays_free_and_the_deadline_holds_while_a_tool_blocks(tools_of):
    tools = tools_of(example.block, seconds=1.0)
    call = asyncio.create_task(tools.call("block", {}))
    late = []
    while not call.done():
        planned = time.monotonic() + 0.01
        await asyncio.sleep(0.01)
        late.append(time.monotonic() - planned)
    assert sorted(late)[len(late) // 2] < 0.05
    with pytest.raises(ToolError, match="gave no answer"):
        await call


async def test_cancelling_a_call_kills_its_process(tools_of):
    call = asyncio.create_task(tools_of(example.block).call("block", {}))
    while not workers():  # noqa: ASYNC110 - another process has no event to wait on
        await asyncio.sleep(0.01)
    call.cancel()
    await asyncio.wait([call])
    assert workers() == []


@pytest.mark.parametrize(("kind", "heard"), [("value", "no"), ("key", "no"), ("exit", "no"), ("quiet", "ValueError")])
async def test_what_a_blocking_tool_raises_reaches_the_model(tools_of, kind, heard):
    with pytest.raises(ToolError, match=f"^{heard}$"):
        await tools_of(example.fail).call("fail", {"kind": kind})


async def test_a_process_that_dies_is_an_error_and_replaced(tools_of):
    tools = tools_of(example.die, example.pid)
    with pytest.raises(ToolError, match="ended without an answer"):
        await tools.call("die", {})
    assert int(await tools.call("pid", {})) > 0


async def test_a_result_is_bounded_before_it_reaches_this_process(tools_of):
    text = await tools_of(example.long).call("long", {"characters": 10_000_000})
    assert len(text) == WHOLE_CHARACTERS
    assert text.endswith("characters left out]")


async def test_a_tool_does_not_see_the_services_settings(tools_of, monkeypatch):
    monkeypatch.setenv("RATCHET_LEDGER_URL", "postgresql://user:secret@host/db")
    assert json.loads(await tools_of(example.secrets).call("secrets", {})) == []
