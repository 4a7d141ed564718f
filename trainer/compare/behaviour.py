"""What the agent did, beside whether it was right."""

from __future__ import annotations

from collections.abc import Sequence

from bank.episode import Episode


def behaviour(episodes: Sequence[Episode]) -> dict[str, float]:
    """How the agent went about it.

    steps: turns of an episode · calls_per_step · repeats: share of calls made before in the same episode, arguments
    included · reward_per_call: summed rewards over all calls.
    """
    calls = [[(c.name, c.arguments) for turn in e.turns for c in turn.reply.tool_calls] for e in episodes]
    turns = sum(len(episode.turns) for episode in episodes)
    number = sum(map(len, calls))
    repeats = sum(len(each) - len(set(each)) for each in calls)
    reward = sum(episode.reward or 0.0 for episode in episodes)
    return {
        "steps": turns / max(1, len(episodes)),
        "calls_per_step": number / max(1, turns),
        "repeats": repeats / max(1, number),
        "reward_per_call": reward / max(1, number),
    }
