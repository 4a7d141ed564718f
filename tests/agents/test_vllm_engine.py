"""vLLM itself, on the CPU, keeps the engines' contract; what only it has stands below."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import aiohttp
import pytest

from agents.adapter import AdapterRef
from agents.engine import EngineFault, GenerateRequest, Generation, LoadRefused, Sampling, Unavailable, UnknownVersion
from agents.transformers_engine.backbone import Backbone, load_backbone
from agents.transformers_engine.engine import TransformersEngine
from agents.vllm_engine.engine import VllmEngine
from agents.vllm_engine.launch import Server
from agents.vllm_engine.model import ServedModel, read_model
from agents.vllm_engine.wire import Patience
from agents.worlds.order_desk.suite import TOOLS
from bank.message import Message, Role, ToolCall
from tests.agents.engine_contract import EngineContract, EngineRig
from tests.agents.tiny_rig import publish
from tests.vllm_server import TINY

pytestmark = pytest.mark.slow

OPENING = (Message(Role.SYSTEM, "You run the order desk."), Message(Role.USER, "please refund order 17"))
REQUEST = GenerateRequest("base", OPENING, TOOLS, Sampling(max_tokens=12))
BROKEN = Message(Role.ASSISTANT, "", (ToolCall("call_0", "refund", '{"order": "17'),))


@pytest.fixture(scope="module")
def backbone() -> Backbone:
    return load_backbone(TINY)


@pytest.fixture(scope="module")
def model() -> ServedModel:
    return read_model(TINY, 16)


@pytest.fixture(scope="module")
def adapters(backbone: Backbone, tmp_path_factory: pytest.TempPathFactory) -> tuple[AdapterRef, ...]:
    folder = tmp_path_factory.mktemp("adapters")
    return tuple(publish(backbone, folder / f"student-rd{seed}", seed) for seed in (1, 2))


@pytest.fixture
async def engine(vllm_server: Server, model: ServedModel):
    """With only the base loaded, before and after."""
    engine = VllmEngine(vllm_server.url, model)
    await _clear(engine)
    yield engine
    await engine.close()


async def _clear(engine: VllmEngine) -> None:
    for name in await engine.versions():
        await engine.unload(name)


class TestVllmEngine(EngineContract):
    @pytest.fixture
    async def rig(self, engine: VllmEngine, adapters: tuple[AdapterRef, ...]):
        return EngineRig(engine, REQUEST, (adapters[0], adapters[1]))


def ask(version: str = "base", messages: tuple[Message, ...] = OPENING, **sampling: object) -> GenerateRequest:
    changed = dataclasses.replace(REQUEST.sampling, **sampling)
    return dataclasses.replace(REQUEST, version=version, messages=messages, sampling=changed)


async def test_the_base_stays_the_base_when_every_slot_is_taken(engine, vllm_server, backbone, tmp_path):
    # vLLM's CPU backend gave rows of the base the adapter of the last slot; see agents/vllm_engine/cpu_plugin
    alone = await engine.generate(ask(temperature=0.0))
    for seed in range(vllm_server.versions + 1):
        ref = publish(backbone, tmp_path / f"student-full{seed}", 10 + seed)
        await engine.load(ref)
        together = await asyncio.gather(*(engine.generate(ask(name, temperature=0.0)) for name in ("base", ref.name)))
        assert together[0].sampled_ids == alone.sampled_ids
        assert together[1].sampled_ids != alone.sampled_ids
        await engine.unload(ref.name)


async def test_both_engines_give_the_same_answers_and_logprobs(engine, backbone, adapters):
    local = TransformersEngine(backbone)
    try:
        for name, ref in (("base", None), (adapters[0].name, adapters[0]), (adapters[1].name, adapters[1])):
            for each in (engine, local):
                if ref is not None:
                    await each.load(ref)
            theirs, ours = [await each.generate(ask(name, temperature=0.0)) for each in (engine, local)]
            assert theirs.prompt_ids == ours.prompt_ids
            assert theirs.sampled_ids == ours.sampled_ids
            assert theirs.logprobs == pytest.approx(ours.logprobs, abs=1e-3)
            assert (theirs.reply, theirs.finish_reason) == (ours.reply, ours.finish_reason)
    finally:
        await local.close()


async def test_logprobs_are_those_of_temperature_one_and_score_repeats_them(engine, adapters):
    await engine.load(adapters[0])
    drawn = await engine.generate(ask(adapters[0].name, temperature=0.3, top_p=0.5, seed=11))
    scores = await engine.score(adapters[0].name, drawn.prompt_ids, drawn.sampled_ids)
    base = await engine.score("base", drawn.prompt_ids, drawn.sampled_ids)
    assert drawn.logprobs == pytest.approx(scores, abs=1e-3)
    assert max(abs(a - b) for a, b in zip(scores, base, strict=True)) > 0.1
    assert await engine.score("base", drawn.prompt_ids, ()) == []


async def test_the_server_s_own_chat_reads_the_same_tokens(vllm_server, model):
    body = {
        "model": "base",
        "messages": [message.to_wire() for message in OPENING],
        "tools": [tool.to_wire() for tool in TOOLS],
        "tool_choice": "none",
        "max_tokens": 1,
        "return_token_ids": True,
    }
    async with aiohttp.ClientSession() as session:
        answer = await (await session.post(f"{vllm_server.url}/v1/chat/completions", json=body)).json()
    assert tuple(answer["prompt_token_ids"]) == model.template.render(OPENING, TOOLS)


async def test_arguments_that_are_no_json_are_read_as_they_were_written(engine):
    answer = await engine.generate(ask(messages=(*OPENING, BROKEN, Message(Role.TOOL, "error", (), "call_0"))))
    assert answer.sampled_ids


async def test_a_stream_is_the_same_reply_in_pieces(engine):
    whole = await engine.generate(ask(temperature=0.0))
    pieces = [piece async for piece in engine.stream(ask(temperature=0.0))]
    assert isinstance(pieces[-1], Generation)
    assert (pieces[-1].sampled_ids, pieces[-1].reply) == (whole.sampled_ids, whole.reply)
    assert pieces[-1].prompt_ids == whole.prompt_ids
    assert len(pieces) > 3
    with pytest.raises(UnknownVersion):
        _ = [piece async for piece in engine.stream(ask("student-nobody"))]


async def running_requests(url: str) -> float:
    async with aiohttp.ClientSession() as session:
        text = await (await session.get(f"{url}/metrics")).text()
    return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("vllm:num_requests_running"))


async def until(condition) -> None:
    async with asyncio.timeout(60):
        while not await condition():  # noqa: ASYNC110 - what is waited for is in another process
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_caller_who_leaves_ends_the_work_in_the_server(vllm_server, model, streamed):
    endless = dataclasses.replace(model, ends=frozenset())
    long = VllmEngine(vllm_server.url, endless)
    request = ask(max_tokens=900, temperature=2.0, seed=3)

    async def consume() -> None:
        if streamed:
            async for _ in long.stream(request):
                pass
        else:
            await long.generate(request)

    task = asyncio.create_task(consume())

    async def busy() -> bool:
        return task.done() or await running_requests(vllm_server.url) > 0

    async def idle() -> bool:
        return await running_requests(vllm_server.url) == 0

    await until(busy)
    assert not task.done()
    task.cancel()
    await asyncio.wait([task])
    await until(idle)
    assert task.cancelled()
    await long.close()


async def test_a_prompt_that_fills_the_context_is_a_fault_and_the_context_bounds_the_reply(engine):
    with pytest.raises(EngineFault, match="no room in a context of 1024"):
        await engine.generate(ask(messages=(*OPENING, Message(Role.USER, "order " * 1200))))
    # longer than one step of the scheduler would read in parts, and seeded: what a CPU engine once died of
    filled = (*OPENING, Message(Role.USER, "order " * 950))
    answer = await engine.generate(ask(messages=filled, max_tokens=5000, seed=4))
    assert len(answer.prompt_ids) + len(answer.sampled_ids) <= 1024


async def test_an_empty_name_or_the_server_s_own_is_never_sent(vllm_server, model):
    renamed = VllmEngine(vllm_server.url, model)
    for name in ("", "BASE", str(TINY)):
        with pytest.raises(UnknownVersion):
            await renamed.generate(ask(name))
    await renamed.close()


async def test_a_server_that_is_not_there_is_unavailable(model):
    engine = VllmEngine("http://127.0.0.1:9", model, Patience(connect=1.0))
    for work in (engine.generate(ask()), engine.versions(), engine.load(AdapterRef("a", "0" * 64, Path("/nowhere")))):
        with pytest.raises(Unavailable):
            await work
    await engine.close()


async def test_an_answer_that_takes_too_long_is_unavailable(vllm_server, model):
    hasty = VllmEngine(vllm_server.url, model, Patience(answer=0.05))
    await hasty.versions()
    with pytest.raises(Unavailable, match=r"did not answer /v1/completions in 0\.05 s"):
        await hasty.generate(ask(max_tokens=800, temperature=2.0, seed=1))
    await hasty.close()


async def test_a_version_loaded_by_another_process_is_known_by_its_folder(engine, vllm_server, model, adapters):
    await engine.load(adapters[0])
    other = VllmEngine(vllm_server.url, model)
    assert (await other.versions())[adapters[0].name] == adapters[0].digest
    await other.load(adapters[0])
    with pytest.raises(LoadRefused, match="never given other weights"):
        await other.load(AdapterRef(adapters[0].name, adapters[1].digest, adapters[1].path))
    await other.close()


async def test_rank_above_the_server_s_slots_is_refused_before_it_is_asked(vllm_server, adapters):
    small = VllmEngine(vllm_server.url, read_model(TINY, 2))
    with pytest.raises(LoadRefused, match=r"rank 4 is not in 1..2"):
        await small.load(adapters[0])
    await small.close()
