"""Functions as tools: their schema, and that blocking ones never block the event loop."""

import asyncio
import contextvars
import threading
from dataclasses import dataclass
from typing import Annotated, Literal

import pytest
from pydantic import Field

from agents.engine import Sampling
from agents.environment import Task
from agents.loop import Run, run_episode
from agents.scripted import ScriptedEngine
from agents.tools.check import ToolError
from agents.tools.python_tools import PythonTools, tool_spec
from agents.tools.threads import NoThreadFree
from bank.episode import Split, StopReason
from bank.message import Message, Role


def convert(
    amount: float, unit: Literal["kg", "lb"] = "kg", *, note: Annotated[str, Field(description="Why.")] = ""
) -> str:
    """Convert a weight."""
    return f"{amount:g} {unit} {note}".strip()


async def lookup(orders: list[int]) -> dict[str, int]:
    """Look orders up."""
    await asyncio.sleep(0)
    return {"größe": sum(orders)}


def test_type_hints_are_the_schema_and_the_docstring_the_description():
    spec = tool_spec(convert)
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


async def test_sync_and_async_functions_are_called_alike():
    tools = PythonTools([convert, lookup])
    assert await tools.call("convert", {"amount": 2, "note": "heavy"}) == "2 kg heavy"
    assert await tools.call("lookup", {"orders": [1, 2]}) == '{"größe":3}'


async def test_arguments_arrive_as_the_types_of_the_hints():
    @dataclass
    class Address:
        city: str

    def move(address: Address) -> str:
        return address.city

    assert await PythonTools([move]).call("move", {"address": {"city": "Oslo"}}) == "Oslo"


async def test_arguments_that_do_not_fit_are_a_tool_error():
    with pytest.raises(ToolError, match="convert: Input should be a valid number"):
        await PythonTools([convert]).call("convert", {"amount": "many"})


async def test_a_blocking_tool_leaves_the_event_loop_free():
    release = threading.Event()

    def block() -> str:
        return "free" if release.wait(20) else "blocked"

    answer = asyncio.create_task(PythonTools([block]).call("block", {}))
    await asyncio.sleep(0)
    release.set()
    assert await answer == "free"


async def test_blocking_calls_of_one_reply_overlap():
    together = threading.Barrier(10, timeout=20)

    def meet(number: int) -> str:
        together.wait()
        return str(number)

    reply = "".join(f'<tool_call>{{"name": "meet", "arguments": {{"number": {n}}}}}</tool_call>' for n in range(10))
    task = Task("live/1", "live", Split.LIVE, "go")
    session = PythonTools([meet]).session("go", "You meet.")
    episode = await run_episode(
        ScriptedEngine([reply, "done"]), session, Run("ep", task, "base", "0", sampling=Sampling(max_tokens=1000))
    )
    assert [message.content for message in episode.turns[0].observations] == [str(number) for number in range(10)]
    assert (episode.stop_reason, episode.reward) == (StopReason.FINISHED, None)
    assert episode.opening == (Message(Role.SYSTEM, "You meet."), Message(Role.USER, "go"))


async def test_a_tool_that_does_not_answer_is_given_up():
    release = threading.Event()

    def stick() -> None:
        release.wait(20)

    async def wait() -> None:
        await asyncio.Event().wait()

    tools = PythonTools([stick, wait], seconds=0.01)
    for name in ("stick", "wait"):
        with pytest.raises(ToolError, match=f"{name} gave no answer within 0.01 s"):
            await tools.call(name, {})
    release.set()


async def test_stuck_tools_do_not_pile_up_threads():
    release = threading.Event()

    def stick() -> None:
        release.wait(20)

    tools = PythonTools([stick], seconds=0.01, threads=2)
    before = threading.active_count()
    for _ in range(2):
        with pytest.raises(ToolError):
            await tools.call("stick", {})
    for _ in range(20):
        with pytest.raises(NoThreadFree):
            await tools.call("stick", {})
    assert threading.active_count() <= before + 2
    release.set()


async def test_a_thread_that_ends_can_be_used_again():
    tools = PythonTools([convert], threads=1)
    for amount in range(50):
        assert await tools.call("convert", {"amount": amount}) == f"{amount} kg"


@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("no"), SystemExit("no")])
async def test_what_a_blocking_tool_raises_reaches_the_caller(error):
    def fail() -> None:
        raise error

    with pytest.raises(type(error), match="no"):
        await PythonTools([fail]).call("fail", {})


async def test_a_blocking_tool_sees_the_callers_context():
    owner = contextvars.ContextVar("owner", default="nobody")

    def who() -> str:
        return owner.get()

    owner.set("key_1")
    assert await PythonTools([who]).call("who", {}) == "key_1"
