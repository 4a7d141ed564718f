"""remember: the one rule that turns an episode into an experience."""

from __future__ import annotations

from datetime import datetime

from bank.episode import Episode, Split, StopReason
from bank.experience import Experience, compact_trace
from bank.ids import new_id
from bank.ledger.ledger import Books


def remember(books: Books, episode: Episode, reward: float, threshold: float, now: datetime) -> Experience | None:
    """Put a verified success into the bank, in the transaction of `books`, which holds the episode already.

    `reward` is the verdict that counts: the environment's, or a trusted rater's. None when there is nothing to
    remember (not good enough, held out for evaluation, cut short, or no tool used) and when the episode has left its
    experience before; one that was withdrawn does not come back.
    """
    if not (reward >= threshold and _worth_retrieving(episode)):
        return None
    experience = Experience(
        id=new_id("exp"),
        episode_id=episode.id,
        suite=episode.suite,
        task_id=episode.task_id,
        task=episode.task,
        trace=compact_trace(episode),
        reward=reward,
        created_at=now,
    )
    return experience if books.experiences.add(experience) else None


def _worth_retrieving(episode: Episode) -> bool:
    used_a_tool = any(turn.reply.tool_calls for turn in episode.turns)
    return episode.split is not Split.HELD_OUT and episode.stop_reason is StopReason.FINISHED and used_a_tool
