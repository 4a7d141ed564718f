from dataclasses import replace

import pytest
import torch

from bank.message import Message, Role
from trainer.errors import BadSpan, NoInsertionPoint
from trainer.framing import FRAMING_AFTER, FRAMING_BEFORE
from trainer.injection import InsertionPoints, check_span, frame, inject


def test_insertion_point_is_where_the_first_user_message_begins(tokenizer, samples):
    sample = samples(1)[0]
    point = InsertionPoints(tokenizer).find(sample.episode, sample.tools)
    prompt = sample.episode.turns[0].prompt_ids
    assert tokenizer.decode(prompt[:point]).endswith("<|im_start|>user\n")
    assert tokenizer.decode(prompt[point:]).startswith(sample.episode.task)


def test_a_prompt_that_was_rendered_otherwise_is_refused(tokenizer, samples):
    sample = samples(1)[0]
    with pytest.raises(NoInsertionPoint, match="0 tools"):
        InsertionPoints(tokenizer).find(sample.episode, ())


def test_an_opening_without_a_user_message_is_refused(tokenizer, samples):
    episode = replace(samples(1)[0].episode, opening=(Message(Role.SYSTEM, "hello"),))
    with pytest.raises(NoInsertionPoint, match="no user message"):
        InsertionPoints(tokenizer).find(episode, ())


def test_frame_holds_the_framing_as_tokens(tokenizer):
    found = frame(tokenizer, 6)
    assert tokenizer.decode(found.before) == FRAMING_BEFORE
    assert tokenizer.decode(found.after) == FRAMING_AFTER
    assert found.length == len(found.before) + 6 + len(found.after)


def test_context_is_spliced_in_and_gets_the_gradient():
    rows = torch.arange(8.0).view(4, 2)
    latent = torch.full((3, 2), 9.0, requires_grad=True)
    found = inject(rows, 1, torch.zeros(1, 2), latent, torch.ones(2, 2))
    assert found[:, 0].tolist() == [0, 0, 9, 9, 9, 1, 1, 2, 4, 6]
    found.sum().backward()
    assert latent.grad.tolist() == [[1, 1]] * 3


def test_a_span_of_the_wrong_length_is_an_error():
    with pytest.raises(BadSpan):
        check_span(torch.zeros(1, 5, 2), latents=6)
