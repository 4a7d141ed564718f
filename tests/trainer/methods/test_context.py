from dataclasses import replace

import pytest

from agents.transformers_engine.prompt import render
from bank.message import Message, Role
from trainer.batch import Strands
from trainer.errors import NoInsertionPoint
from trainer.framing import with_references
from trainer.methods import context
from trainer.methods.text_teacher import TextTeacher, plain_point

OPENING = (Message(Role.SYSTEM, "Be kind."), Message(Role.USER, "Question?"))


def test_each_template_puts_the_evidence_where_its_source_does():
    demonstration = context.demonstration(OPENING, "EVIDENCE")
    assert demonstration[0] == OPENING[0]
    assert demonstration[1].content.startswith("Question?\n\n")
    oracle = context.oracle(OPENING, "EVIDENCE")
    assert (oracle[0].role, oracle[1]) == (Role.SYSTEM, OPENING[1])
    assert oracle[0].content.startswith("Be kind.\n\n")
    assert context.skill(OPENING, "EVIDENCE")[1].content.endswith("EVIDENCE\n\nQuestion?")
    assert context.framed(OPENING, "EVIDENCE")[1].content == with_references("Question?", ["EVIDENCE"])
    assert all("EVIDENCE" in "".join(m.content for m in each) for each in (demonstration, oracle))


def test_an_oracle_makes_the_system_message_that_is_missing():
    found = context.oracle(OPENING[1:], "EVIDENCE")
    assert [message.role for message in found] == [Role.SYSTEM, Role.USER]


def test_feedback_speaks_only_without_a_solution():
    both = context.reprompt(OPENING, "SOLUTION", "FEEDBACK")[1].content
    assert "SOLUTION" in both
    assert "FEEDBACK" not in both
    assert "FEEDBACK" in context.reprompt(OPENING, None, "FEEDBACK")[1].content


def test_only_complaints_are_feedback(samples):
    episode = samples(1)[0].episode
    assert context.failed_calls(episode) is None
    told = (Message(Role.TOOL, "error: no order 9", tool_call_id="c"), Message(Role.TOOL, "ok", tool_call_id="d"))
    turn = replace(episode.turns[0], observations=told)
    assert context.failed_calls(replace(episode, turns=(turn,))) == "error: no order 9"


def test_levels_show_a_beginning():
    assert context.shown_up_to("a\nb\nc", 1, 4) == "a"
    assert context.shown_up_to("a\nb\nc", 2, 4) == "a\nb"
    assert context.shown_up_to("a\nb\nc", 4, 4) == "a\nb\nc"


def rows_of(every):
    strands = Strands.of(every)
    ones = strands.trajectory_S.float()
    return strands.rows([plain_point(s.actions) for _, s in strands.found], ones, ones)


@pytest.mark.parametrize("words", [context.framed, context.demonstration, context.oracle, context.skill])
def test_the_teacher_reads_its_own_rendering_and_the_recorded_rest(tokenizer, samples, words):
    every = samples(3)
    openings = [words(sample.episode.opening, sample.references[0].document) for sample in every]
    rows = rows_of(every)
    twins = TextTeacher(tokenizer).twins(rows, every, openings)
    for row, twin, sample, opening in zip(rows, twins, every, openings, strict=True):
        first = len(sample.episode.turns[0].prompt_ids)
        assert twin.ids == render(tokenizer, opening, sample.tools) + row.ids[first:]
        assert [twin.ids[i] for i in twin.actions] == [row.ids[i] for i in row.actions]


def test_a_prompt_that_is_not_as_rendered_is_refused(tokenizer, samples):
    (sample,) = samples(1)
    other = replace(sample, episode=replace(sample.episode, opening=OPENING))
    with pytest.raises(NoInsertionPoint):
        TextTeacher(tokenizer).twins(rows_of([sample]), [other], [context.framed(OPENING, "x")])
