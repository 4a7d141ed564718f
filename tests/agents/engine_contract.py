"""What every engine must do, whatever serves it: subclass `EngineContract` and give it a `rig` fixture.

class TestMyEngine(EngineContract):
    @pytest.fixture
    async def rig(self):
        ...
        yield EngineRig(engine, request, (first, second))
        await engine.close()
"""

import asyncio
import dataclasses
import math
from dataclasses import dataclass

import pytest

from agents.adapter import AdapterRef
from agents.engine import Engine, EngineFault, GenerateRequest, Generation, LoadRefused, Sampling, UnknownVersion
from bank.message import Message, Role


@dataclass(frozen=True)
class EngineRig:
    """An engine that has only "base" resident, and what to try on it."""

    engine: Engine
    request: GenerateRequest
    """A prompt for "base" that the engine can answer; the contract varies its sampling and version."""
    adapters: tuple[AdapterRef, AdapterRef]
    """Two published adapters of this base with different weights."""


def ask(rig: EngineRig, version: str = "base", **sampling: object) -> GenerateRequest:
    changed = dataclasses.replace(Sampling(max_tokens=16), **sampling)
    return dataclasses.replace(rig.request, version=version, sampling=changed)


def evidence(generation: Generation) -> tuple[object, ...]:
    return generation.version, generation.prompt_ids, generation.sampled_ids, generation.reply


def close(left: Generation, right: Generation) -> bool:
    pairs = zip(left.logprobs, right.logprobs, strict=True)
    return all(math.isclose(a, b, abs_tol=1e-4) for a, b in pairs)


class EngineContract:
    """Inherited by one test class per engine."""

    async def test_a_reply_carries_its_version_and_one_logprob_per_token(self, rig: EngineRig) -> None:
        generation = await rig.engine.generate(ask(rig, seed=1))
        assert generation.version == "base"
        assert generation.prompt_ids
        assert generation.sampled_ids
        assert len(generation.sampled_ids) == len(generation.logprobs)
        assert all(math.isfinite(logprob) and logprob <= 0 for logprob in generation.logprobs)
        assert generation.reply.role is Role.ASSISTANT
        assert generation.finish_reason in {"stop", "length"}

    async def test_no_more_tokens_than_asked_for(self, rig: EngineRig) -> None:
        generation = await rig.engine.generate(ask(rig, max_tokens=1, seed=3))
        assert len(generation.sampled_ids) == 1

    async def test_an_unknown_version_is_refused_and_never_answered_by_another(self, rig: EngineRig) -> None:
        for name in ("student-nobody", "BASE", "base ", "student", ""):
            with pytest.raises(UnknownVersion):
                await rig.engine.generate(ask(rig, version=name))

    async def test_an_unknown_version_does_not_disturb_its_neighbours(self, rig: EngineRig) -> None:
        good, bad = ask(rig, temperature=0.0), ask(rig, version="student-nobody")
        answers = await asyncio.gather(*map(rig.engine.generate, [good, bad, good]), return_exceptions=True)
        assert isinstance(answers[1], UnknownVersion)
        assert evidence(answers[0]) == evidence(answers[2])

    async def test_versions_reports_the_base_and_what_was_loaded_with_digests(self, rig: EngineRig) -> None:
        before = await rig.engine.versions()
        assert set(before) == {"base"}
        assert len(before["base"]) == 64
        for adapter in rig.adapters:
            await rig.engine.load(adapter)
        assert await rig.engine.versions() == {**before, **{ref.name: ref.digest for ref in rig.adapters}}

    async def test_a_loaded_version_answers_under_its_own_name(self, rig: EngineRig) -> None:
        for adapter in rig.adapters:
            await rig.engine.load(adapter)
        requests = [ask(rig, version=name, temperature=0.0) for name in ("base", *(a.name for a in rig.adapters))]
        answers = await asyncio.gather(*map(rig.engine.generate, requests))
        assert [answer.version for answer in answers] == [request.version for request in requests]

    async def test_a_loaded_version_is_not_secretly_another_one(self, rig: EngineRig) -> None:
        for adapter in rig.adapters:
            await rig.engine.load(adapter)
        names = ("base", *(adapter.name for adapter in rig.adapters))
        answers = [await rig.engine.generate(ask(rig, version=name, temperature=0.0)) for name in names]
        assert len({(answer.sampled_ids, answer.logprobs) for answer in answers}) == 3

    async def test_versions_mixed_in_one_batch_answer_as_they_do_alone(self, rig: EngineRig) -> None:
        for adapter in rig.adapters:
            await rig.engine.load(adapter)
        names = ("base", *(adapter.name for adapter in rig.adapters))
        requests = [ask(rig, version=name, temperature=0.0) for name in names]
        alone = [await rig.engine.generate(request) for request in requests]
        together = await asyncio.gather(*map(rig.engine.generate, requests))
        assert list(map(evidence, together)) == list(map(evidence, alone))
        assert all(map(close, together, alone))

    async def test_loading_twice_changes_nothing(self, rig: EngineRig) -> None:
        adapter = rig.adapters[0]
        await rig.engine.load(adapter)
        first = await rig.engine.generate(ask(rig, version=adapter.name, temperature=0.0))
        versions = await rig.engine.versions()
        await asyncio.gather(rig.engine.load(adapter), rig.engine.load(adapter))
        assert await rig.engine.versions() == versions
        again = await rig.engine.generate(ask(rig, version=adapter.name, temperature=0.0))
        assert evidence(again) == evidence(first)

    async def test_a_name_is_never_given_other_weights(self, rig: EngineRig) -> None:
        first, second = rig.adapters
        await rig.engine.load(first)
        with pytest.raises(LoadRefused):
            await rig.engine.load(AdapterRef(first.name, second.digest, second.path))
        assert (await rig.engine.versions())[first.name] == first.digest

    async def test_loading_under_traffic_disturbs_nobody(self, rig: EngineRig) -> None:
        alone = await rig.engine.generate(ask(rig, temperature=0.0))
        traffic = [asyncio.create_task(rig.engine.generate(ask(rig, temperature=0.0))) for _ in range(4)]
        await asyncio.sleep(0)
        await rig.engine.load(rig.adapters[0])
        answers = await asyncio.gather(*traffic)
        assert [evidence(answer) for answer in answers] == [evidence(alone)] * 4
        assert all(close(answer, alone) for answer in answers)

    async def test_unloading_lets_admitted_requests_finish(self, rig: EngineRig) -> None:
        adapter = rig.adapters[0]
        await rig.engine.load(adapter)
        request = ask(rig, version=adapter.name, temperature=0.0)
        before = await rig.engine.generate(request)
        admitted = [asyncio.create_task(rig.engine.generate(request)) for _ in range(3)]
        await asyncio.sleep(0)
        await rig.engine.unload(adapter.name)
        assert [evidence(answer) for answer in await asyncio.gather(*admitted)] == [evidence(before)] * 3
        assert adapter.name not in await rig.engine.versions()
        with pytest.raises(UnknownVersion):
            await rig.engine.generate(request)

    async def test_a_version_can_come_back(self, rig: EngineRig) -> None:
        adapter = rig.adapters[0]
        request = ask(rig, version=adapter.name, temperature=0.0)
        await rig.engine.load(adapter)
        first = await rig.engine.generate(request)
        await rig.engine.unload(adapter.name)
        await rig.engine.load(adapter)
        assert evidence(await rig.engine.generate(request)) == evidence(first)

    async def test_unloading_ignores_unknown_names_and_keeps_the_base(self, rig: EngineRig) -> None:
        await rig.engine.unload("student-nobody")
        await rig.engine.unload("base")
        assert "base" in await rig.engine.versions()
        assert (await rig.engine.generate(ask(rig, temperature=0.0))).version == "base"

    async def test_greedy_is_deterministic(self, rig: EngineRig) -> None:
        answers = [await rig.engine.generate(ask(rig, temperature=0.0, seed=seed)) for seed in (None, 1, 2)]
        assert [evidence(answer) for answer in answers] == [evidence(answers[0])] * 3

    async def test_a_seed_gives_the_same_tokens_whatever_shares_the_batch(self, rig: EngineRig) -> None:
        alone = await rig.engine.generate(ask(rig, seed=7))
        longer = (*rig.request.messages, Message(Role.ASSISTANT, "done"), Message(Role.USER, "please refund order 17"))
        others = [dataclasses.replace(ask(rig, seed=seed), messages=longer) for seed in (1, 2, 3)]
        batch = [*others, ask(rig, seed=7), ask(rig, seed=None)]
        together = (await asyncio.gather(*map(rig.engine.generate, batch)))[3]
        assert evidence(together) == evidence(alone)
        assert close(together, alone)

    async def test_a_cancelled_request_leaves_the_engine_usable(self, rig: EngineRig) -> None:
        expected = await rig.engine.generate(ask(rig, temperature=0.0))
        task = asyncio.create_task(rig.engine.generate(ask(rig, seed=5)))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert evidence(await rig.engine.generate(ask(rig, temperature=0.0))) == evidence(expected)

    async def test_a_closed_engine_refuses(self, rig: EngineRig) -> None:
        await rig.engine.close()
        with pytest.raises(EngineFault):
            await rig.engine.generate(ask(rig))
