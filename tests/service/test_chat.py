"""Chat: what clients may send, what they get, and what is on record afterwards."""

import asyncio
import json

import pytest

from agents.scripted import ScriptedEngine
from bank.episode import StopReason

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "enum": ["Oslo", "Rome"]}},
                "required": ["city"],
            },
        },
    }
    for name in ("weather", "time")
]
HELLO = {"role": "user", "content": "hello"}


def body(*messages, **fields):
    return {"model": "student", "messages": list(messages) or [HELLO], **fields}


async def ask(service, *messages, headers=None, **fields):
    answer = await service.client.post("/v1/chat/completions", json=body(*messages, **fields), headers=headers)
    assert answer.status_code == 200, answer.text
    return answer


def choice(answer):
    return answer.json()["choices"][0]


async def guests(service, number):
    while len(service.state.runs._guests) != number:  # noqa: ASYNC110 - the service has no event for a test to wait on
        await asyncio.sleep(0.001)


def result(call, content):
    return {"role": "tool", "tool_call_id": call["id"], "content": content}


async def test_an_answer_names_its_version_and_is_on_record_and_can_be_judged(serve, keys):
    async with serve(ScriptedEngine(lambda _: "hi there")) as service:
        answer = await ask(service, headers=keys["user"])
        found = answer.json()
        assert choice(answer) == {
            "index": 0,
            "message": {"role": "assistant", "content": "hi there", "refusal": None},
            "finish_reason": "stop",
            "logprobs": None,
        }
        assert (found["model"], found["object"], found["system_fingerprint"]) == ("base", "chat.completion", "0" * 64)
        assert answer.headers["x-episode-id"] == found["episode_id"]
        (episode,) = service.episodes()
        assert (episode.id, episode.stop_reason, episode.task) == (found["episode_id"], StopReason.FINISHED, "hello")
        assert found["usage"]["completion_tokens"] == len(episode.turns[0].sampled_ids)
        judged = {"episode_id": episode.id, "value": 1.0, "metric": "success"}
        assert (await service.client.post("/feedback", json=judged, headers=keys["user"])).status_code == 200 + 1


async def test_a_conversation_with_tools_is_one_episode(serve, hermes):
    script = ["Let me look." + hermes("weather", city="Oslo") + hermes("time", city="Rome"), "Rain at noon.", "Bye."]
    engine = ScriptedEngine(script)
    async with serve(engine) as service:
        first = choice(await ask(service, tools=TOOLS))
        assert first["finish_reason"] == "tool_calls"
        calls = first["message"]["tool_calls"]
        assert [call["function"]["name"] for call in calls] == ["weather", "time"]
        assert len({call["id"] for call in calls}) == 2
        assert service.episodes()[0].stop_reason is StopReason.WAITING
        talk = [HELLO, first["message"], result(calls[1], "noon"), result(calls[0], "rain")]
        second = choice(await ask(service, *talk, tools=TOOLS))
        talk += [second["message"], {"role": "user", "content": "thanks"}]
        third = await ask(service, *talk, tools=TOOLS)
        (episode,) = service.episodes()
    assert third.json()["episode_id"] == episode.id
    assert len(episode.turns) == 3
    assert episode.stop_reason is StopReason.FINISHED
    assert [message.content for message in episode.turns[0].observations] == ["rain", "noon"]
    assert [message.content for message in episode.turns[1].observations] == ["thanks"]
    assert engine.requests[2].messages == episode.messages[:-1]


@pytest.mark.parametrize("content", [{"content": None}, {"content": ""}, {}])
async def test_a_turn_without_words_may_be_sent_back_in_three_ways(serve, hermes, content):
    async with serve(ScriptedEngine([hermes("weather", city="Oslo"), "Rain."])) as service:
        first = choice(await ask(service, tools=TOOLS))
        assert first["message"]["content"] is None
        calls = first["message"]["tool_calls"]
        again = {"role": "assistant", "tool_calls": calls, **content}
        await ask(service, HELLO, again, result(calls[0], "rain"), tools=TOOLS)
        (episode,) = service.episodes()
        assert len(episode.turns) == 2


async def test_a_client_may_write_arguments_and_ids_in_its_own_way(serve, hermes):
    async with serve(ScriptedEngine([hermes("weather", city="Oslo"), "Rain."])) as service:
        await ask(service, tools=TOOLS)
        call = {"id": "mine", "type": "function", "function": {"name": "weather", "arguments": '{ "city":"Oslo" }'}}
        await ask(service, HELLO, {"role": "assistant", "tool_calls": [call]}, result(call, "rain"), tools=TOOLS)
        (episode,) = service.episodes()
    assert len(episode.turns) == 2
    assert episode.turns[0].observations[0].tool_call_id == episode.turns[0].reply.tool_calls[0].id


async def test_calls_that_a_crashed_client_never_answered_are_repaired(serve, hermes):
    engine = ScriptedEngine([hermes("weather", city="Oslo"), "Never mind.", "Yes."])
    async with serve(engine) as service:
        first = choice(await ask(service, tools=TOOLS))
        talk = [HELLO, first["message"], {"role": "user", "content": "still there?"}]
        second = choice(await ask(service, *talk, tools=TOOLS))
        await ask(service, *talk, second["message"], {"role": "user", "content": "good"}, tools=TOOLS)
        (episode,) = service.episodes()
    assert [message.content for message in episode.turns[0].observations] == ["error: interrupted", "still there?"]
    assert len(episode.turns) == 3


async def test_a_conversation_can_be_joined_by_header_or_metadata(serve):
    async with serve(ScriptedEngine(lambda _: "ok")) as service:
        first = await ask(service)
        episode = first.json()["episode_id"]
        talk = [HELLO, choice(first)["message"], {"role": "user", "content": "more"}]
        second = await ask(service, *talk, headers={"X-Episode-Id": episode})
        talk += [choice(second)["message"], {"role": "user", "content": "more"}]
        third = await ask(service, *talk, metadata={"episode_id": episode, "team": "blue"}, store=True)
        assert {second.json()["episode_id"], third.json()["episode_id"]} == {episode}


async def test_joining_refuses_what_is_unknown_foreign_or_different(serve, keys):
    async with serve(ScriptedEngine(lambda _: "ok")) as service:
        episode = (await ask(service, headers=keys["user"])).json()["episode_id"]
        talk = body(HELLO, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "more"})
        wrong = body(HELLO, {"role": "assistant", "content": "else"}, {"role": "user", "content": "more"})
        for named, sent, key, expected in [
            ("ep_nobody", talk, "user", (404, "unknown_episode")),
            (episode, talk, "stranger", (404, "unknown_episode")),
            (episode, wrong, "user", (409, "conversation_diverged")),
        ]:
            headers = {**keys[key], "X-Episode-Id": named}
            answer = await service.client.post("/v1/chat/completions", json=sent, headers=headers)
            assert (answer.status_code, answer.json()["error"]["code"]) == expected
        assert len(service.episodes()) == 1


async def test_nobody_joins_another_keys_conversation_by_saying_the_same(serve, keys):
    async with serve(ScriptedEngine(lambda _: "ok")) as service:
        talk = [HELLO, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "more"}]
        await ask(service, headers=keys["user"])
        await ask(service, *talk, headers=keys["stranger"])
        assert sorted(len(episode.turns) for episode in service.episodes()) == [1, 1]


async def test_two_requests_that_go_on_with_one_conversation_never_mix(serve):
    gate = asyncio.Event()

    async def answer(request):
        if len(request.messages) > 1:
            await gate.wait()
        return "ok"

    async with serve(ScriptedEngine(answer)) as service:
        await ask(service)
        talk = body(HELLO, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "more"})
        twins = [asyncio.create_task(service.client.post("/v1/chat/completions", json=talk)) for _ in range(2)]
        await guests(service, 2)
        gate.set()
        answers = await asyncio.gather(*twins)
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        (episode,) = service.episodes()
        assert len(episode.turns) == 2


async def test_a_version_change_begins_a_new_episode(serve, publish):
    engine = ScriptedEngine(lambda _: "ok")
    async with serve(engine) as service:
        first = (await ask(service)).json()
        name = await publish(service, engine, "r1")
        done = await service.client.post("/v1/deployment/promote", json={"checkpoint": name})
        assert done.status_code == 200, done.text
        talk = [HELLO, {"role": "assistant", "content": "ok"}, {"role": "user", "content": "more"}]
        second = (await ask(service, *talk)).json()
        assert (first["model"], second["model"]) == ("base", name)
        assert {(len(episode.turns), len(episode.opening)) for episode in service.episodes()} == {(1, 1), (1, 3)}


async def test_what_must_not_be_stored_is_not(serve):
    async with serve(ScriptedEngine(lambda _: "ok")) as service:
        answer = await ask(service, store=False)
        assert answer.json()["episode_id"] is None
        assert "x-episode-id" not in answer.headers
        assert service.episodes() == ()


@pytest.mark.parametrize(
    ("wish", "replies", "reason", "names"),
    [
        ({}, ["plain"], "stop", []),
        ({"tool_choice": "auto"}, ["{weather}"], "tool_calls", ["weather"]),
        ({"tool_choice": "none"}, ["so {weather}"], "stop", []),
        ({"tool_choice": "required"}, ["prose", "{weather}"], "tool_calls", ["weather"]),
        ({"tool_choice": "named"}, ["{weather}", "{time}"], "tool_calls", ["time"]),
        ({"parallel_tool_calls": False}, ["{weather}{time}"], "tool_calls", ["weather"]),
        ({}, ["{weather}{shout}"], "tool_calls", ["weather"]),
        ({}, ["{shout}", "{time}"], "tool_calls", ["time"]),
        ({}, ["{shout}", "{shout}", "{shout}"], "stop", []),
        ({}, ["{paris}", "{weather}"], "tool_calls", ["weather"]),
        ({}, ["{paris}", "{paris}", "{paris}"], "tool_calls", ["weather"]),
        ({"max_tokens": 3}, ["one two three four"], "length", []),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_the_reason_always_says_what_the_body_holds(serve, hermes, wish, replies, reason, names, stream):
    texts = {name: hermes(name, city="Oslo") for name in ("weather", "time", "shout")}
    texts["paris"] = hermes("weather", city="Paris")
    left = [reply.format(**texts) for reply in replies]
    wish = dict(wish)
    if wish.get("tool_choice") == "named":
        wish["tool_choice"] = {"type": "function", "function": {"name": "time"}}
    async with serve(ScriptedEngine(lambda _: left.pop(0))) as service:
        answer = await ask(service, tools=TOOLS, stream=stream, **wish)
        found = joined(answer.text) if stream else choice(answer)
        assert left == []
        assert found["finish_reason"] == reason
        assert [call["function"]["name"] for call in found["message"].get("tool_calls", [])] == names
        assert found["message"].get("content") or names
        (episode,) = service.episodes()
        assert len(episode.turns) == len(replies)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "time"}}])
async def test_a_call_that_is_never_made_is_an_error_and_never_prose(serve, choice):
    async with serve(ScriptedEngine(lambda _: "I would rather not")) as service:
        sent = body(tools=TOOLS, tool_choice=choice)
        answer = await service.client.post("/v1/chat/completions", json=sent)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "tool_choice_unmet")
        streamed = await ask(service, tools=TOOLS, tool_choice=choice, stream=True)
        assert json.loads(streamed.text.splitlines()[2].removeprefix("data: "))["error"]["code"] == "tool_choice_unmet"
        assert service.episodes() == ()


def events(text):
    return [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]


def joined(text):
    """A client that trusts nothing but `index`."""
    lines = events(text)
    assert lines.pop() == "[DONE]"
    content, calls, reasons = "", {}, []
    for line in map(json.loads, lines):
        for part in line["choices"]:
            delta = part["delta"]
            content += delta.get("content") or ""
            for piece in delta.get("tool_calls", []):
                call = calls.setdefault(piece["index"], {"function": {"name": "", "arguments": ""}})
                for key, value in piece["function"].items():
                    call["function"][key] += value
            reasons += [part["finish_reason"]] if part["finish_reason"] else []
    (reason,) = reasons
    message = {"content": content, **({"tool_calls": list(calls.values())} if calls else {})}
    return {"message": message, "finish_reason": reason}


async def test_a_stream_joins_to_exactly_what_the_whole_reply_holds(serve, hermes):
    long = {"city": "Oslo", "note": "</tool_call> 漢字 🙂 \u0301 \u05d0 " * 40}
    text = "Wait, " * 40 + hermes("weather", **long) + hermes("time", city="Rome")
    async with serve(ScriptedEngine(lambda _: text)) as service:
        whole = choice(await ask(service, tools=TOOLS, max_tokens=4000))
        streamed = joined((await ask(service, tools=TOOLS, max_tokens=4000, stream=True)).text)
    functions = [call["function"] for call in whole["message"]["tool_calls"]]
    assert streamed["message"]["content"] == whole["message"]["content"]
    assert [call["function"] for call in streamed["message"]["tool_calls"]] == functions
    assert json.loads(functions[0]["arguments"]) == long


@pytest.mark.parametrize("wanted", [True, False, None])
async def test_usage_comes_last_and_only_on_request(serve, wanted):
    options = {} if wanted is None else {"stream_options": {"include_usage": wanted}}
    async with serve(ScriptedEngine(lambda _: "ok")) as service:
        lines = events((await ask(service, stream=True, **options)).text)
    chunks = [json.loads(line) for line in lines[:-1]]
    with_choices = [chunk for chunk in chunks if chunk["choices"]]
    assert len(chunks) - len(with_choices) == (1 if wanted else 0)
    assert with_choices[-1]["choices"][0]["finish_reason"] == "stop"
    if wanted:
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["total_tokens"] > 0


@pytest.mark.parametrize(
    "messages",
    [
        [{"role": "system", "content": "x"}],
        [HELLO, {"role": "assistant", "content": "x"}],
        [HELLO, {"role": "tool", "tool_call_id": "x", "content": "y"}],
        [{"role": "user", "content": "x", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}],
        [HELLO, {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "[]"}}]}],
        [HELLO, {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}] * 2}, HELLO],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://127.0.0.1"}}]}],
        [{"role": "function", "content": "x"}],
        [],
    ],
)
async def test_what_is_no_conversation_is_refused(serve, messages):
    async with serve() as service:
        answer = await service.client.post("/v1/chat/completions", json={"model": "student", "messages": messages})
        assert answer.status_code == 422
        assert service.episodes() == ()


@pytest.mark.parametrize(
    "field", [{"n": 2}, {"stop": ["x"]}, {"logprobs": True}, {"temperature": 3}, {"response_format": {"type": "json"}}]
)
async def test_what_can_not_be_done_is_refused_by_name(serve, field):
    async with serve() as service:
        answer = await service.client.post("/v1/chat/completions", json=body(**field))
        assert answer.status_code == 422
        assert next(iter(field)) in answer.json()["error"]["message"]


async def test_models_are_an_alias_for_users_and_versions_for_operators(serve, keys):
    async with serve() as service:
        mine = (await service.client.get("/v1/models", headers=keys["user"])).json()
        assert [(model["id"], model["version"]) for model in mine["data"]] == [("student", "base")]
        theirs = (await service.client.get("/v1/models")).json()
        assert [(model["id"], model["live"]) for model in theirs["data"]] == [("student", True), ("base", True)]
        assert (await service.client.get("/v1/models/student", headers=keys["user"])).json() == mine["data"][0]
        assert (await service.client.get("/v1/models/base", headers=keys["user"])).status_code == 404
        asked = await service.client.post("/v1/chat/completions", json={**body(), "model": "gpt-4"})
        assert (asked.status_code, asked.json()["error"]["code"]) == (404, "model_not_found")


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_who_leaves_ends_the_engines_work(listen, stream):
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever(_request):
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "never"

    async with listen(ScriptedEngine(forever)) as (service, _):
        post = asyncio.create_task(service.client.post("/v1/chat/completions", json=body(stream=stream)))
        await begun.wait()
        post.cancel()
        async with asyncio.timeout(2):
            await ended.wait()
        await guests(service, 0)
        assert service.episodes() == ()
        assert service.state.fleet.replicas[0].leases.total() == 0


async def test_a_stopping_service_tells_its_streams(listen):
    async def forever(_request):
        await asyncio.sleep(60)
        return "never"

    async with listen(ScriptedEngine(forever)) as (service, server):
        post = asyncio.create_task(service.client.post("/v1/chat/completions", json=body(stream=True)))
        await guests(service, 1)
        server.should_exit = True
        answer = await post
        assert json.loads(events(answer.text)[-1])["error"]["code"] == "shutting_down"


async def test_a_prompt_that_fills_the_context_is_the_clients_to_cut(serve):
    async with serve(ScriptedEngine(lambda _: "done", context=10)) as service:
        assert (await service.client.post("/v1/chat/completions", json=body())).status_code == 200
        long = body({"role": "user", "content": "word " * 10})
        answer = await service.client.post("/v1/chat/completions", json=long)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "context_length_exceeded")
        assert len(service.episodes()) == 1


async def test_praise_for_a_conversation_that_still_waits_counts_when_it_has_ended(serve, hermes):
    async with serve(ScriptedEngine([hermes("weather", city="Oslo"), "Rain."])) as service:
        first = await ask(service, tools=TOOLS)
        praise = {"episode_id": first.json()["episode_id"], "value": 1.0, "metric": "success"}
        assert (await service.client.post("/feedback", json=praise)).status_code == 201
        assert service.read(lambda books: books.experiences.count()) == 0
        said = choice(first)["message"]
        await ask(service, HELLO, said, result(said["tool_calls"][0], "rain"), tools=TOOLS)
        (experience,) = service.read(lambda books: books.experiences.pending(10))
        assert (experience.episode_id, experience.task) == (praise["episode_id"], "hello")


async def test_praise_that_was_taken_back_before_the_end_does_not_count(serve, hermes):
    async with serve(ScriptedEngine([hermes("weather", city="Oslo"), "Rain."])) as service:
        first = await ask(service, tools=TOOLS)
        praise = {"episode_id": first.json()["episode_id"], "value": 1.0, "metric": "success"}
        stored = await service.client.post("/feedback", json=praise)
        await service.client.delete(f"/feedback/{stored.json()['id']}")
        said = choice(first)["message"]
        await ask(service, HELLO, said, result(said["tool_calls"][0], "rain"), tools=TOOLS)
        assert service.read(lambda books: books.experiences.count()) == 0
