import pytest
import torch
from torch.testing import assert_close

from trainer.batch import batches_of, rows_of
from trainer.errors import BadSpan
from trainer.injection import Frame, InsertionPoints, frame
from trainer.roles import STUDENT, Roles
from trainer.views import Views

CPU = torch.device("cpu")


@pytest.fixture
def backbone(new_backbone):
    return new_backbone()


@pytest.fixture
def roles(backbone):
    found = Roles(backbone.model)
    found.add(STUDENT, 4, 8.0, 0, trained=True)
    with torch.no_grad():
        for weight in found.parameters(STUDENT).values():
            weight.add_(0.05 * torch.randn_like(weight))
    return found


def batch_of(tokenizer, every):
    (batch,) = batches_of(rows_of(every, InsertionPoints(tokenizer), "token", centre=False), 10_000, 0, CPU)
    return batch


def plain_hidden(model, batch, row, splice=None):
    """One row through the whole model as PEFT runs it: no padding, no shared prefix, no hooks."""
    ids = torch.cat([batch.prefix_1C[0], batch.ids_BT[row]])
    if splice is not None:
        point = batch.points[row] + batch.prefix_1C.shape[1]
        ids = torch.cat([ids[:point], torch.tensor(splice), ids[point:]])
    columns = batch.column_S[batch.row_S == row] + batch.prefix_1C.shape[1] + len(splice or ())
    output = model(input_ids=ids[None], output_hidden_states=True)
    return output.hidden_states[-1][0, columns]


@torch.no_grad()
def test_student_view_is_what_peft_computes_for_the_adapter(backbone, roles, tokenizer, samples):
    batch = batch_of(tokenizer, samples(3))
    found = Views(roles, Frame((), 0, ()), 64).student(batch)
    backbone.model.set_adapter(STUDENT)
    expected = torch.cat([plain_hidden(backbone.model, batch, row) for row in range(3)])
    assert_close(found, expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_teacher_without_context_is_the_base(backbone, roles, tokenizer, samples):
    batch = batch_of(tokenizer, samples(3))
    found = Views(roles, Frame((), 0, ()), 64).teacher(batch, torch.zeros(3, 0, 64))
    with backbone.model.disable_adapter():
        expected = torch.cat([plain_hidden(backbone.model, batch, row) for row in range(3)])
    assert_close(found, expected, atol=1e-4, rtol=1e-4)


@torch.no_grad()
def test_embeddings_of_known_tokens_as_latents_equal_the_token_path(backbone, roles, tokenizer, samples):
    batch = batch_of(tokenizer, samples(3))
    known = tokenizer("refund(order=17) -> ok")["input_ids"]
    around = frame(tokenizer, len(known))
    views = Views(roles, around, 64)
    found = views.teacher(batch, roles.embed(torch.tensor(known)).expand(3, -1, -1))
    splice = [*around.before, *known, *around.after]
    with backbone.model.disable_adapter():
        expected = torch.cat([plain_hidden(backbone.model, batch, row, splice) for row in range(3)])
    every = torch.arange(roles.head.out_features).expand(len(found), -1)
    assert_close(views.scores(found, every), roles.head(expected).log_softmax(1), atol=1e-4, rtol=1e-4)


def test_the_teachers_gradient_reaches_the_context_and_no_weight(backbone, roles, tokenizer, samples):
    batch = batch_of(tokenizer, samples(2))
    context = torch.randn(2, 4, 64, requires_grad=True)
    Views(roles, frame(tokenizer, 4), 64).teacher(batch, context).sum().backward()
    assert context.grad.abs().sum() > 0
    assert all(weight.grad is None for weight in backbone.model.parameters())


def test_only_the_students_adapter_gets_the_students_gradient(backbone, roles, tokenizer, samples):
    batch = batch_of(tokenizer, samples(2))
    Views(roles, frame(tokenizer, 4), 64).student(batch).sum().backward()
    touched = {name for name, weight in backbone.model.named_parameters() if weight.grad is not None}
    assert touched == set(roles.parameters(STUDENT))


def test_a_context_of_the_wrong_length_is_refused(roles, tokenizer, samples):
    with pytest.raises(BadSpan):
        Views(roles, frame(tokenizer, 4), 64).teacher(batch_of(tokenizer, samples(1)), torch.zeros(1, 5, 64))


def test_chunked_heads_give_the_same_scores_and_gradients(roles):
    torch.manual_seed(1)
    hidden = torch.randn(10, 64, requires_grad=True)
    index = torch.randint(0, roles.head.out_features, (10, 3))
    found = []
    for chunk in (3, 100):
        views = Views(roles, Frame((), 0, ()), chunk)
        scores = views.scores(hidden, index)
        found.append((scores, views.support(hidden, 5), *torch.autograd.grad(scores.square().sum(), hidden)))
    for one, other in zip(*found, strict=True):
        assert_close(one, other)


def test_peft_is_left_as_it_was(backbone, roles):
    before = [(layer.active_adapters, layer.disable_adapters) for layer in roles._layers]
    flags = {name: weight.requires_grad for name, weight in backbone.model.named_parameters()}
    with roles.acting(STUDENT), pytest.raises(RuntimeError), roles.acting(None):
        raise RuntimeError
    assert [(layer.active_adapters, layer.disable_adapters) for layer in roles._layers] == before
    assert {name: weight.requires_grad for name, weight in backbone.model.named_parameters()} == flags
    assert not any(layer.get_base_layer()._forward_hooks for layer in roles._layers)
