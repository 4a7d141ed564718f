import asyncio
from dataclasses import replace

import pytest
import torch

from agents.engine import GenerateRequest, Sampling
from bank.episode import Turn
from trainer.compare.teacher import TEACHER, Teacher
from trainer.lesson import Lesson
from trainer.methods.lopd import Lopd


class Shelf:
    """Always the same references."""

    def __init__(self, references):
        self._references = references

    def references(self, *_):
        return self._references


def test_the_playing_teacher_is_the_teaching_one(new_backbone, small, samples):
    """Log-probabilities of its own tokens are those that the objective's teacher view gives them."""
    backbone, (sample,) = new_backbone(), samples(1)
    lopd = Lopd(backbone, small, seed=3)
    teacher = Teacher(backbone, lopd, Shelf(sample.references))
    opening = sample.episode.opening
    request = GenerateRequest(TEACHER, opening, sample.tools, Sampling(max_tokens=9, seed=4))
    answer = asyncio.run(teacher.generate(request))
    turn = Turn(answer.prompt_ids, answer.sampled_ids, answer.logprobs, answer.reply)
    played = replace(sample, episode=replace(sample.episode, turns=(turn,)))
    equipment = lopd.equipment
    with torch.no_grad(), equipment.roles.apart():
        lesson = Lesson.of(equipment, [played], attached=True)
        (batch,) = lesson.batches
        hidden = equipment.views.teacher(batch, lesson.leaf_BLD)
        expected = equipment.views.scores(hidden, batch.action_S[:, None])[:, 0]
    assert answer.logprobs == pytest.approx(expected.tolist(), abs=1e-4)
    assert asyncio.run(teacher.generate(request)) == answer
