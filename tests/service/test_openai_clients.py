"""The clients that people already use, unchanged, against a real port."""

import asyncio

import openai
import pytest
from langchain_core.messages import AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from agents.scripted import ScriptedEngine

USER = "rk_user"


@tool
def weather(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@tool
def clock(city: str) -> str:
    """The time in a city."""
    return f"noon in {city}"


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": each.name,
            "description": each.description,
            "parameters": each.args_schema.model_json_schema(),
        },
    }
    for each in (weather, clock)
]
HELLO = {"role": "user", "content": "hello"}


@pytest.fixture
def talk(hermes):
    """An engine that calls two tools at once, then says what they answered."""
    calls = "One moment." + hermes("weather", city="Oslo") + hermes("clock", city="Rome")

    def answer(request):
        said = [message.content for message in request.messages if message.role == "tool"]
        return calls if request.tools and not said else " and ".join(said) or "hi"

    return ScriptedEngine(answer)


def base(service):
    return f"{service.client.base_url}/v1"


def converse(client):
    """Both sides of a tool conversation with the sync SDK."""
    messages = [HELLO]
    first = client.chat.completions.create(model="student", messages=messages, tools=TOOLS)
    messages.append(first.choices[0].message)
    messages += [
        {"role": "tool", "tool_call_id": call.id, "content": call.function.name}
        for call in first.choices[0].message.tool_calls
    ]
    return first, client.chat.completions.create(model="student", messages=messages, tools=TOOLS)


async def test_the_sync_sdk_holds_a_tool_conversation(listen, talk):
    async with listen(talk) as (service, _):
        with openai.OpenAI(base_url=base(service), api_key=USER, max_retries=0) as client:
            first, second = await asyncio.to_thread(converse, client)
            models = await asyncio.to_thread(lambda: list(client.models.list()))
        assert first.choices[0].finish_reason == "tool_calls"
        assert second.choices[0].message.content == "weather and clock"
        assert [model.id for model in models] == ["student"]
        (episode,) = service.episodes()
        assert second.episode_id == episode.id
        assert len(episode.turns) == 2


async def test_the_async_sdk_streams_calls_and_usage(listen, talk):
    asked = {"model": "student", "messages": [HELLO], "tools": TOOLS, "stream_options": {"include_usage": True}}
    async with (
        listen(talk) as (service, _),
        openai.AsyncOpenAI(base_url=base(service), api_key=USER) as client,
        client.chat.completions.stream(**asked) as stream,
    ):
        final = await stream.get_final_completion()
    message = final.choices[0].message
    assert message.content == "One moment."
    assert [(call.function.name, call.function.arguments) for call in message.tool_calls] == [
        ("weather", '{"city": "Oslo"}'),
        ("clock", '{"city": "Rome"}'),
    ]
    assert final.choices[0].finish_reason == "tool_calls"
    assert final.usage.total_tokens > 0


async def test_the_async_sdk_reads_plain_streams_and_raw_headers(listen, talk):
    async with listen(talk) as (service, _), openai.AsyncOpenAI(base_url=base(service), api_key=USER) as client:
        pieces = await client.chat.completions.create(model="student", messages=[HELLO], stream=True)
        assert "".join([part.choices[0].delta.content or "" async for part in pieces]) == "hi"
        raw = await client.chat.completions.with_raw_response.create(model="student", messages=[HELLO])
        assert raw.headers["x-episode-id"] == raw.parse().episode_id


@pytest.mark.parametrize("choice", ["none", "auto", "required", {"type": "function", "function": {"name": "weather"}}])
async def test_every_tool_choice_of_the_sdk_is_taken(listen, talk, choice):
    async with listen(talk) as (service, _), openai.AsyncOpenAI(base_url=base(service), api_key=USER) as client:
        answer = await client.chat.completions.create(
            model="student", messages=[HELLO], tools=TOOLS, tool_choice=choice, store=True, metadata={"team": "blue"}
        )
    assert answer.choices[0].finish_reason == ("stop" if choice == "none" else "tool_calls")


async def test_the_sdk_sees_errors_as_its_own_kinds(listen, talk):
    async with listen(talk) as (service, _), openai.AsyncOpenAI(base_url=base(service), api_key=USER) as client:
        with pytest.raises(openai.NotFoundError) as caught:
            await client.chat.completions.create(model="gpt-4", messages=[HELLO])
        assert caught.value.code == "model_not_found"
        with pytest.raises(openai.UnprocessableEntityError):
            await client.chat.completions.create(model="student", messages=[])
        with pytest.raises(openai.AuthenticationError):
            await client.with_options(api_key="rk_wrong").models.list()


@pytest.mark.parametrize("usage", [True, False])
async def test_langchain_calls_tools_and_streams(listen, talk, usage):
    async with listen(talk) as (service, _):
        model = ChatOpenAI(model="student", base_url=base(service), api_key=USER, stream_usage=usage)
        agent = model.bind_tools([weather, clock])
        messages = [HumanMessage("hello")]
        called = await agent.ainvoke(messages)
        results = [await {"weather": weather, "clock": clock}[call["name"]].ainvoke(call) for call in called.tool_calls]
        assert all(isinstance(result, ToolMessage) for result in results)
        final = AIMessageChunk("")
        async for chunk in agent.astream([*messages, called, *results]):
            final += chunk
        assert final.content == "rain in Oslo and noon in Rome"
        assert bool(final.usage_metadata) is usage
        (episode,) = service.episodes()
        assert len(episode.turns) == 2
