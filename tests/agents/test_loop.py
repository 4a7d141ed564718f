"""The loop: what is recorded, what goes back to the model, and what ends a run."""

import asyncio
import dataclasses
import json

import pytest

from agents.engine import Sampling
from agents.environment import EnvironmentFault, Task
from agents.limits import Limits
from agents.loop import INTERRUPTED, Run, run_episode, turn_seed
from agents.scripted import BASE_DIGEST, ScriptedEngine
from agents.suites import open_suite
from agents.tools.spec import ToolSpec
from bank.episode import Split, StopReason
from bank.message import Message, Role

SUITE = open_suite("order_desk:0")
TASK = SUITE.tasks(Split.TRAIN)[0]
ANY = {"type": "object"}


class Desk:
    """A session of one test: tools are functions."""

    def __init__(self, verdict=1.0, **tools):
        self.opening = (Message(Role.USER, "go"),)
        self.tools = tuple(ToolSpec(name, "", ANY) for name in tools)
        self._tools = tools
        self._verdict = verdict
        self.secret_calls = 0

    def call(self, name, arguments):
        return self._tools[name](**arguments)

    def secret(self):
        self.secret_calls += 1
        return "secret"

    def verify(self):
        if isinstance(self._verdict, Exception):
            raise self._verdict
        return self._verdict


def raising(error):
    def tool(**_arguments):
        raise error

    return tool


def call(name, /, **arguments):
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


def run(task=TASK, **changes):
    return Run("ep_1", task, "base", BASE_DIGEST, **changes)


async def play(script, session, on_turn=None, **changes):
    return await run_episode(ScriptedEngine(script), session, run(**changes), on_turn)


def observations(episode):
    return [message.content for turn in episode.turns for message in turn.observations]


async def test_a_solved_task_is_recorded_whole():
    script = [*(call(name, **arguments) for name, arguments in SUITE.gold(TASK)), "done"]
    engine = ScriptedEngine(script)
    episode = await run_episode(engine, SUITE.reset(TASK), run(owner="key_1"))
    assert (episode.stop_reason, episode.reward, episode.fault) == (StopReason.FINISHED, 1.0, None)
    assert (episode.id, episode.policy, episode.digest, episode.owner) == ("ep_1", "base", BASE_DIGEST, "key_1")
    assert (episode.task_id, episode.suite, episode.split, episode.task) == (TASK.id, SUITE.name, TASK.split, TASK.text)
    assert len(episode.turns) == len(script)
    assert observations(episode)[1:] == ["ok"] * (len(script) - 2)
    assert episode.created_at.utcoffset() is not None


async def test_turns_hold_exactly_what_the_engine_returned():
    engine, kept = ScriptedEngine([call("look"), "done"]), []
    original = engine.generate

    async def spy(request):
        kept.append(await original(request))
        return kept[-1]

    engine.generate = spy
    episode = await run_episode(engine, Desk(look=lambda: "seen"), run())
    evidence = [(turn.prompt_ids, turn.sampled_ids, turn.logprobs) for turn in episode.turns]
    assert evidence == [(one.prompt_ids, one.sampled_ids, one.logprobs) for one in kept]


async def test_the_recorded_messages_are_what_the_model_saw():
    engine = ScriptedEngine([call("look"), call("look", far=True), "done"])
    episode = await run_episode(engine, Desk(look=lambda **_far: "seen"), run())
    assert [request.messages for request in engine.requests] == [
        episode.messages[:1],
        episode.messages[:3],
        episode.messages[:5],
    ]
    assert {request.version for request in engine.requests} == {"base"}


async def test_call_ids_are_unique_in_the_episode_and_answered_in_order():
    tools = {name: (lambda name=name: f"from {name}") for name in "abc"}
    episode = await play([call("b") + call("a"), call("c") + call("b"), "done"], Desk(**tools))
    ids = [one.id for turn in episode.turns for one in turn.reply.tool_calls]
    assert len(set(ids)) == 4
    assert [message.tool_call_id for turn in episode.turns for message in turn.observations] == ids
    assert observations(episode) == ["from b", "from a", "from c", "from b"]


async def test_effects_of_several_calls_happen_in_order():
    seen = []

    def note(mark):
        seen.append(mark)
        return mark

    await play([call("note", mark="a") + call("note", mark="b") + call("note", mark="c"), "done"], Desk(note=note))
    assert seen == ["a", "b", "c"]


@pytest.mark.parametrize("name", ["secret", "Look", "loo", "look ", "verify", "call", "__init__"])
async def test_only_declared_tools_are_called(name):
    desk = Desk(look=lambda: "seen")
    episode = await play([call(name), "sorry"], desk)
    assert observations(episode) == [f"error: unknown tool {name}; tools: look"]
    assert desk.secret_calls == 0
    assert episode.stop_reason is StopReason.FINISHED


async def test_broken_json_goes_back_to_the_model():
    episode = await play(['<tool_call>{"name": "look", "arg</tool_call>', "sorry"], Desk(look=lambda: "seen"))
    assert observations(episode)[0].startswith("error: arguments are broken JSON")
    assert episode.stop_reason is StopReason.FINISHED


async def test_arguments_are_checked_before_dispatch():
    episode = await play([call("refund"), call("refund", order=17), "sorry"], SUITE.reset(TASK))
    assert observations(episode) == ["error: refund: missing order", "error: refund: order must be string"]
    assert episode.reward == 0.0


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (KeyError("no order 5"), "error: no order 5"),
        (ValueError(), "error: ValueError"),
        (OSError(2, "gone"), "error: [Errno 2] gone"),
    ],
)
async def test_an_exception_in_a_tool_goes_back_to_the_model(error, text):
    episode = await play([call("look"), "sorry"], Desk(look=raising(error)))
    assert observations(episode) == [text]
    assert (episode.stop_reason, episode.reward) == (StopReason.FINISHED, 1.0)


async def test_results_and_errors_are_capped_before_they_enter_the_context():
    desk = Desk(big=lambda: "漢" * 1_000_000, bad=raising(ValueError("x" * 1_000_000)))
    engine = ScriptedEngine([call("big") + call("bad"), "done"])
    episode = await run_episode(engine, desk, run(limits=Limits(result_characters=200)))
    assert [len(text) for text in observations(episode)] == [200, 200]
    assert all("characters left out]" in text for text in observations(episode))
    assert engine.requests[1].messages == episode.messages[:4]


async def test_a_result_that_is_no_text_is_a_tool_error():
    episode = await play([call("look"), "done"], Desk(look=lambda: 5))
    assert observations(episode) == ["error: look returned int, not text"]


async def test_the_step_limit_stops_after_the_last_tools_answered():
    episode = await play(
        lambda request: call("look", n=len(request.messages)), Desk(look=lambda **_n: "seen"), limits=Limits(steps=4)
    )
    assert (episode.stop_reason, len(episode.turns)) == (StopReason.STEP_LIMIT, 4)
    assert observations(episode) == ["seen"] * 4
    assert episode.reward == 1.0


async def test_the_token_limit_bounds_every_reply():
    engine = ScriptedEngine(lambda request: call("look", n=len(request.messages)))
    desk = Desk(look=lambda **_n: "seen")
    episode = await run_episode(engine, desk, run(limits=Limits(tokens=50), sampling=Sampling(max_tokens=40)))
    assert episode.stop_reason is StopReason.TOKEN_LIMIT
    used = [len(turn.sampled_ids) for turn in episode.turns]
    assert sum(used) <= 50
    assert [request.sampling.max_tokens for request in engine.requests] == [
        min(40, 50 - sum(used[:turn])) for turn in range(len(used))
    ]


async def test_an_answer_that_was_cut_off_is_not_finished():
    episode = await play(["a long answer"], Desk(), sampling=Sampling(max_tokens=2))
    assert episode.stop_reason is StopReason.TOKEN_LIMIT


async def test_an_engine_that_hangs_is_stopped_by_the_clock():
    async def hang(_request):
        await asyncio.Event().wait()

    episode = await play(hang, Desk(), limits=Limits(seconds=0.01))
    assert (episode.stop_reason, episode.turns, episode.fault) == (StopReason.TIME_LIMIT, (), None)


async def test_a_tool_that_hangs_is_stopped_and_its_call_answered():
    async def hang():
        await asyncio.Event().wait()

    episode = await play(
        [call("quick") + call("hang")], Desk(quick=lambda: "seen", hang=hang), limits=Limits(seconds=0.05)
    )
    assert episode.stop_reason is StopReason.TIME_LIMIT
    assert observations(episode) == ["seen", INTERRUPTED]


async def test_the_clock_also_stops_a_run_that_never_waits():
    episode = await play([call("look")], Desk(look=lambda: "seen"), limits=Limits(seconds=0.0))
    assert (episode.stop_reason, episode.turns) == (StopReason.TIME_LIMIT, ())


async def test_a_timeout_of_a_tool_itself_is_a_tool_error():
    episode = await play([call("look"), "sorry"], Desk(look=raising(TimeoutError("too slow"))))
    assert observations(episode) == ["error: too slow"]


async def test_going_round_in_circles_stops_the_run():
    episode = await play(lambda _request: call("look"), Desk(look=lambda: "seen"))
    assert (episode.stop_reason, len(episode.turns)) == (StopReason.REPEATED, 3)


async def test_repeated_errors_count_as_circles():
    episode = await play(lambda _request: call("refund"), SUITE.reset(TASK), limits=Limits(repeats=2))
    assert (episode.stop_reason, len(episode.turns)) == (StopReason.REPEATED, 2)


async def test_a_version_that_is_not_loaded_is_a_fault_without_reward():
    engine = ScriptedEngine(["done"])
    episode = await run_episode(engine, Desk(), dataclasses.replace(run(), version="student-x"))
    assert (episode.stop_reason, episode.reward) == (StopReason.FAULT, None)
    assert episode.fault == "UnknownVersion: student-x is not loaded; loaded: base"
    assert engine.requests == []


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"version": "student-x"}, "asked base, answered by student-x"),
        ({"logprobs": ()}, "2 tokens with 0 log-probabilities"),
        ({"logprobs": (-0.1, float("nan"))}, "a log-probability is not finite"),
    ],
)
async def test_a_reply_that_can_not_be_trusted_is_a_fault_and_not_recorded(changes, fault):
    engine = ScriptedEngine(["done"])
    original = engine.generate

    async def lie(request):
        return dataclasses.replace(await original(request), **changes)

    engine.generate = lie
    episode = await run_episode(engine, Desk(), run())
    assert (episode.stop_reason, episode.reward, episode.turns) == (StopReason.FAULT, None, ())
    assert episode.fault == f"EngineFault: {fault}"


async def test_a_fault_keeps_the_turns_before_it():
    episode = await play([call("look")], Desk(look=lambda: "seen"))
    assert (episode.stop_reason, episode.reward) == (StopReason.FAULT, None)
    assert observations(episode) == ["seen"]
    assert episode.fault == "EngineFault: the script ends before turn 1"


async def test_a_world_that_fails_is_a_fault_and_every_call_is_answered():
    desk = Desk(look=lambda: "seen", crash=raising(EnvironmentFault("world gone")))
    episode = await play([call("look") + call("crash"), "done"], desk)
    assert (episode.stop_reason, episode.reward, episode.fault) == (
        StopReason.FAULT,
        None,
        "EnvironmentFault: world gone",
    )
    assert observations(episode) == ["seen", INTERRUPTED]


@pytest.mark.parametrize(
    "verdict", [float("nan"), float("inf"), -0.1, 1.1, True, "1", RuntimeError("no verdict"), EnvironmentFault("gone")]
)
async def test_a_verdict_that_is_none_is_a_fault_without_reward(verdict):
    episode = await play(["done"], Desk(verdict=verdict))
    assert (episode.stop_reason, episode.reward) == (StopReason.FAULT, None)
    assert episode.fault.startswith("EnvironmentFault: ")
    assert len(episode.turns) == 1


@pytest.mark.parametrize("verdict", [0.0, 0.5, 1, None])
async def test_the_reward_is_the_verdict(verdict):
    assert (await play(["done"], Desk(verdict=verdict))).reward == verdict


async def test_a_bug_propagates():
    def bug(_request):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await play(bug, Desk())


async def test_a_timeout_that_is_not_the_runs_propagates():
    def late(_request):
        raise TimeoutError("socket")

    with pytest.raises(TimeoutError, match="socket"):
        await play(late, Desk())


async def test_a_cancelled_run_says_what_it_had_done():
    started, turns = asyncio.Event(), []

    async def hang():
        started.set()
        await asyncio.Event().wait()

    script = [call("look"), call("look") + call("hang") + call("look")]
    task = asyncio.create_task(play(script, Desk(look=lambda: "seen", hang=hang), turns.append))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [message.content for turn in turns for message in turn.observations] == ["seen", "seen", INTERRUPTED, "seen"]


async def test_every_turn_is_announced_once_when_it_is_complete():
    turns = []
    episode = await play([call("look"), "done"], Desk(look=lambda: "seen"), turns.append)
    assert tuple(turns) == episode.turns


async def test_turns_sample_with_seeds_of_their_own():
    engine = ScriptedEngine([call("look"), "done"])
    await run_episode(engine, Desk(look=lambda: "seen"), run(sampling=Sampling(seed=5)))
    assert [request.sampling.seed for request in engine.requests] == [turn_seed(5, 0), turn_seed(5, 1)]
    assert len({turn_seed(seed, turn) for seed in range(30) for turn in range(30)}) == 900
    assert all(0 <= turn_seed(seed, 0) < 2**63 for seed in range(100))


async def test_without_a_seed_no_turn_has_one():
    engine = ScriptedEngine(["done"])
    await run_episode(engine, Desk(), run())
    assert engine.requests[0].sampling.seed is None


async def test_a_users_own_words_run_without_a_verdict():
    task = Task("live/1", "live", Split.LIVE, "please refund order 17")
    episode = await play([call("refund", order="17"), "done"], SUITE.live(task.text), task=task)
    assert (episode.stop_reason, episode.reward, episode.split) == (StopReason.FINISHED, None, Split.LIVE)
    assert observations(episode) == ["ok"]


async def test_runs_at_the_same_time_share_nothing():
    engine = ScriptedEngine([call("get_order", order=TASK.payload["order"]), "done"])
    alone = await run_episode(engine, SUITE.reset(TASK), run())
    together = await asyncio.gather(*(run_episode(engine, SUITE.reset(TASK), run()) for _ in range(20)))
    assert {episode.turns for episode in together} == {alone.turns}


async def test_a_fault_cancels_the_calls_that_still_wait():
    cancelled = asyncio.Event()

    async def hang():
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    desk = Desk(hang=hang, crash=raising(EnvironmentFault("world gone")))
    episode = await play([call("hang") + call("crash")], desk)
    await asyncio.wait_for(cancelled.wait(), 10)
    assert observations(episode) == [INTERRUPTED, INTERRUPTED]
