from dataclasses import replace

import pytest

from bank.episode import StopReason
from trainer.errors import TooManyOverLong
from trainer.sample import length, select


def test_failed_rollouts_are_left_out_and_counted(samples):
    good, fault, unjudged, silent = samples(4)
    fault = replace(fault, episode=replace(fault.episode, stop_reason=StopReason.FAULT, reward=0.0))
    unjudged = replace(unjudged, episode=replace(unjudged.episode, reward=None))
    silent = replace(silent, episode=replace(silent.episode, turns=()))
    found = select([good, fault, unjudged, silent], longest=1000, share=0.0)
    assert found.samples == (good,)
    assert (found.failed, found.over_long) == (3, 0)


def test_over_long_rollouts_are_counted_up_to_the_share_and_refused_above(samples):
    every = sorted(samples(4), key=lambda sample: length(sample.episode))
    longest = length(every[-1].episode) - 1
    over = sum(length(sample.episode) > longest for sample in every)
    found = select(every, longest, share=over / 4)
    assert found.over_long == over
    assert len(found.samples) == 4 - over
    with pytest.raises(TooManyOverLong):
        select(every, longest, share=over / 4 - 0.01)
