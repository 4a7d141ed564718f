"""Trajectories of the code suite are trajectories like any other: every method takes a step on them."""

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from agents.engine import Generation
from agents.loop import Run, run_episode
from agents.transformers_engine.prompt import render
from agents.worlds.code.suite import CodeSuite
from bank.episode import Split
from bank.experience import Experience, compact_trace
from bank.message import Message, Role, ToolCall
from trainer.method_config import METHODS
from trainer.methods.lopd import Lopd
from trainer.sample import Sample


class Coder:
    """Submits the given code and is done, in the template's own tokens."""

    def __init__(self, tokenizer, code):
        self._tokenizer, self._code = tokenizer, code

    async def generate(self, request):
        done = request.messages[-1].role is Role.TOOL
        call = ToolCall("call_0_0", "submit", json.dumps({"code": self._code}))
        reply = Message(Role.ASSISTANT, "done") if done else Message(Role.ASSISTANT, "", (call,))
        prompt = render(self._tokenizer, request.messages, request.tools)
        after = render(self._tokenizer, [*request.messages, reply], request.tools)
        sampled = after[len(prompt) : len(after) - after[::-1].index(self._tokenizer.eos_token_id)]
        return Generation("base", prompt, sampled, (-6.7,) * len(sampled), reply, "stop")


@pytest.fixture(scope="module")
def code_samples(tokenizer):
    suite, found = CodeSuite(0), []
    for index in range(4):
        task = suite.tasks(Split.TRAIN)[index // 2]
        code = suite.gold(task)[0][1]["code"] if index % 2 == 0 else "def solve(x):\n    return 0"
        run = Run(f"ep_{index}", task, "base", "0" * 64)
        episode = asyncio.run(run_episode(Coder(tokenizer, code), suite.reset(task), run))
        found.append((episode, suite.reset(task).tools))
    best = found[0][0]
    lived = Experience(
        "exp", best.id, "code-0", "other", best.task, compact_trace(best), 1.0, datetime(2026, 1, 1, tzinfo=UTC)
    )
    return [Sample(e, (lived, replace(lived, id="exp2")), tools, lived, best) for e, tools in found]


@pytest.mark.parametrize("name", [name for name in METHODS if name not in ("vanilla", "lopd")])
def test_every_method_takes_a_step_on_code(new_method, code_samples, name):
    assert [sample.episode.reward for sample in code_samples][::2] == [1.0, 1.0]
    assert new_method(name, longest=2000).step(code_samples)["grad_norm_student"] > 0


def test_lopd_takes_a_step_on_code(new_backbone, small, code_samples):
    lopd = Lopd(new_backbone(), small, seed=3)
    lopd.freeze()
    assert lopd.step(code_samples)["grad_norm_composer"] > 0
