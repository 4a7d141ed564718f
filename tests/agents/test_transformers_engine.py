"""The in-process engine keeps the engines' contract, and the facts that only it has."""

import asyncio
import dataclasses

import pytest
import torch

from agents.engine import EngineFault, GenerateRequest, LoadRefused, Sampling, UnknownVersion
from agents.transformers_engine.backbone import load_backbone
from agents.transformers_engine.engine import TransformersEngine
from agents.worlds.order_desk.suite import TOOLS
from bank.message import Message, Role, ToolCall
from tests.agents.engine_contract import EngineContract, EngineRig
from tests.agents.tiny_rig import add_student, publish, write_base

OPENING = (Message(Role.SYSTEM, "You run the order desk."), Message(Role.USER, "please refund order 17"))
REQUEST = GenerateRequest("base", OPENING, TOOLS, Sampling(max_tokens=12))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_base(tmp_path_factory.mktemp("base"))


@pytest.fixture
def backbone(folder):
    return load_backbone(folder)


@pytest.fixture
async def engine(backbone):
    engine = TransformersEngine(backbone)
    yield engine
    await engine.close()


class TestTransformersEngine(EngineContract):
    @pytest.fixture
    async def rig(self, backbone, tmp_path):
        engine = TransformersEngine(backbone)
        adapters = tuple(publish(backbone, tmp_path / f"student-{seed}", seed) for seed in (1, 2))
        yield EngineRig(engine, REQUEST, adapters)
        await engine.close()


def plain_logprobs(model, prompt, sampled):
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *sampled]])).logits[0]
    rows = logits[len(prompt) - 1 : -1].log_softmax(-1)
    return rows[torch.arange(len(sampled)), torch.tensor(sampled)].tolist()


def ask(version="base", messages=OPENING, **sampling):
    changed = dataclasses.replace(REQUEST.sampling, **sampling)
    return dataclasses.replace(REQUEST, version=version, messages=messages, sampling=changed)


async def test_logprobs_are_those_of_a_plain_forward_at_temperature_one(backbone, engine):
    add_student(backbone, "student", 1)
    engine.adopt("mine", "student", "d" * 64)
    generation = await engine.generate(ask("mine", temperature=0.5, top_p=0.6, seed=1))
    backbone.model.set_adapter("student")
    expected = plain_logprobs(backbone.model, generation.prompt_ids, generation.sampled_ids)
    assert generation.logprobs == pytest.approx(expected, abs=1e-4)


async def test_many_turns_and_versions_at_once_match_plain_forwards(backbone, engine):
    names = {"base": None, "one": "s1", "two": "s2"}
    for version, adapter in names.items():
        if adapter:
            add_student(backbone, adapter, len(version))
            engine.adopt(version, adapter, "d" * 64)

    async def converse(index, version):
        messages, turns = (*OPENING, Message(Role.USER, "more " * index)), []
        for turn in range(3):
            generation = await engine.generate(ask(version, messages, seed=turn, max_tokens=3 + (index * turn) % 9))
            turns.append(generation)
            messages = (*messages, generation.reply, Message(Role.USER, "delivered"))
        return turns

    versions = [list(names)[index % 3] for index in range(12)]
    told = await asyncio.gather(*(converse(index, version) for index, version in enumerate(versions)))
    for version, turns in zip(versions, told, strict=True):
        for generation in turns:
            if names[version]:
                backbone.model.set_adapter(names[version])
                expected = plain_logprobs(backbone.model, generation.prompt_ids, generation.sampled_ids)
            else:
                with backbone.model.disable_adapter():
                    expected = plain_logprobs(backbone.model, generation.prompt_ids, generation.sampled_ids)
            assert generation.logprobs == pytest.approx(expected, abs=1e-4)


async def test_score_repeats_the_logprobs_of_a_generation(backbone, engine):
    add_student(backbone, "student", 1)
    engine.adopt("mine", "student", "d" * 64)
    generation = await engine.generate(ask("mine", seed=1))
    scores = await engine.score("mine", generation.prompt_ids, generation.sampled_ids)
    others = await engine.score("base", generation.prompt_ids, generation.sampled_ids)
    assert scores == pytest.approx(list(generation.logprobs), abs=1e-4)
    assert max(abs(a - b) for a, b in zip(scores, others, strict=True)) > 0.1
    assert await engine.score("mine", generation.prompt_ids, ()) == []
    with pytest.raises(UnknownVersion):
        await engine.score("nobody", generation.prompt_ids, generation.sampled_ids)


async def test_training_the_adopted_adapter_in_place_is_seen_by_the_next_request(backbone, engine):
    add_student(backbone, "student", 1)
    engine.adopt("mine", "student", "d" * 64)
    before = await engine.generate(ask("mine", temperature=0))
    with torch.no_grad():
        for name, weight in backbone.model.named_parameters():
            if ".student." in name:
                weight.mul_(1.5)
    after = await engine.generate(ask("mine", temperature=0))
    backbone.model.set_adapter("student")
    expected = plain_logprobs(backbone.model, after.prompt_ids, after.sampled_ids)
    assert after.logprobs == pytest.approx(expected, abs=1e-4)
    assert after.logprobs != pytest.approx(before.logprobs, abs=1e-3)


async def test_adopted_versions_are_named_and_retired(backbone, engine):
    add_student(backbone, "student", 1)
    engine.adopt("mine", "student", "d" * 64)
    assert (await engine.versions())["mine"] == "d" * 64
    engine.retire("mine")
    assert set(await engine.versions()) == {"base"}
    assert "student" in backbone.model.peft_config
    for version, adapter in (("base", "student"), ("mine", "nobody")):
        with pytest.raises(LoadRefused):
            engine.adopt(version, adapter, "d" * 64)


async def test_call_ids_are_new_in_the_conversation(engine, backbone):
    call = ToolCall("call_0", "refund", '{"order": "17"}')
    messages = (*OPENING, Message(Role.ASSISTANT, "", (call,)), Message(Role.TOOL, "ok", (), "call_0"))
    text = '<tool_call>\n{"name": "cancel", "arguments": {"order": "17"}}\n</tool_call>'
    row = engine._row("base", (1, 2, 3), Sampling())
    row.sampled.extend([*backbone.tokenizer(text * 2)["input_ids"], backbone.tokenizer.eos_token_id])
    assert [made.id for made in engine._reply(row, messages).tool_calls] == ["call_1", "call_2"]


async def test_a_prompt_that_fills_the_context_is_a_fault(engine):
    with pytest.raises(EngineFault, match="no room in a context of 512"):
        await engine.generate(ask(messages=(*OPENING, Message(Role.USER, "order " * 600))))


async def test_the_context_bounds_the_reply(engine):
    room = 512 - len((await engine.generate(ask(max_tokens=1))).prompt_ids)
    filled = (*OPENING, Message(Role.USER, "order " * (room // 2 - 6)))
    generation = await engine.generate(ask(messages=filled, max_tokens=5000, seed=4))
    assert len(generation.prompt_ids) + len(generation.sampled_ids) <= 512


async def test_more_requests_than_a_batch_holds_are_all_answered(backbone):
    engine = TransformersEngine(backbone, max_batch=3)
    answers = await asyncio.gather(*(engine.generate(ask(seed=seed)) for seed in range(10)))
    alone = [await engine.generate(ask(seed=seed)) for seed in range(10)]
    await engine.close()
    assert [answer.sampled_ids for answer in answers] == [answer.sampled_ids for answer in alone]


async def test_cancelled_requests_do_not_harm_the_others(engine):
    expected = await engine.generate(ask(seed=1, max_tokens=64))
    tasks = [asyncio.create_task(engine.generate(ask(seed=seed % 2, max_tokens=64))) for seed in range(8)]
    await asyncio.sleep(0.02)
    for task in tasks[::2]:
        task.cancel()
    answers = await asyncio.gather(*tasks, return_exceptions=True)
    assert all(isinstance(answer, asyncio.CancelledError) for answer in answers[::2])
    assert all(answer.sampled_ids == expected.sampled_ids for answer in answers[1::2])


async def test_closing_fails_what_is_in_flight(backbone):
    engine = TransformersEngine(backbone)
    task = asyncio.create_task(engine.generate(ask(max_tokens=400, seed=1)))
    await asyncio.sleep(0.01)
    await engine.close()
    with pytest.raises(EngineFault):
        await task


async def test_a_failed_forward_fails_its_requests_and_the_engine_lives_on(backbone, engine):
    add_student(backbone, "student", 1)
    engine.adopt("mine", "student", "d" * 64)
    for name, weight in backbone.model.named_parameters():
        if ".student." in name and "lora_A" in name:
            weight.data = torch.zeros(3, 7)
    for _ in range(2):
        with pytest.raises(EngineFault, match="the forward pass failed"):
            await engine.generate(ask("mine"))
    assert (await engine.generate(ask(seed=1))).version == "base"


async def test_tokens_outside_the_vocabulary_are_a_fault(engine):
    for ids in ((10**6,), (-1,), ()):
        with pytest.raises(EngineFault):
            await engine.score("base", ids, (1,))


def test_sliding_attention_is_refused(tmp_path):
    layers = {"use_sliding_window": True, "sliding_window": 8, "max_window_layers": 1}
    backbone = load_backbone(write_base(tmp_path, **layers))
    with pytest.raises(ValueError, match="vLLM"):
        TransformersEngine(backbone)
