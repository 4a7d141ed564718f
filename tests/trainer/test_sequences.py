from dataclasses import replace

from trainer.sequences import sequences_of


def episode(samples, *turns):
    recorded = samples(1)[0].episode
    made = (replace(recorded.turns[0], prompt_ids=prompt, sampled_ids=sampled) for prompt, sampled in turns)
    return replace(recorded, turns=tuple(made))


def test_turns_that_extend_each_other_become_one_sequence(samples):
    found = sequences_of(episode(samples, ((1, 2), (3, 4)), ((1, 2, 3, 4, 9, 9), (5,))))
    assert [(s.ids, s.actions) for s in found] == [((1, 2, 3, 4, 9, 9, 5), (2, 3, 6))]


def test_a_rewritten_prompt_starts_a_new_sequence_and_keeps_every_action(samples):
    found = sequences_of(episode(samples, ((1, 2), (3, 4)), ((1, 2, 4, 9), (5, 6))))
    assert [(s.ids, s.actions) for s in found] == [((1, 2, 3, 4), (2, 3)), ((1, 2, 4, 9, 5, 6), (4, 5))]


def test_a_turn_without_sampled_tokens_adds_no_action(samples):
    found = sequences_of(episode(samples, ((1, 2), (3,)), ((1, 2, 3, 7), ())))
    assert [s.actions for s in found] == [(2,)]


def test_a_recorded_conversation_is_one_sequence(samples):
    recorded = samples(1)[0].episode
    (found,) = sequences_of(recorded)
    assert [found.ids[i] for i in found.actions] == [token for turn in recorded.turns for token in turn.sampled_ids]
