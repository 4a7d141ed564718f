"""What a policy did, beside whether it was right."""

from __future__ import annotations

from collections.abc import Sequence

from bank.episode import Episode, StopReason

LIMITS = frozenset({StopReason.STEP_LIMIT, StopReason.TOKEN_LIMIT, StopReason.TIME_LIMIT, StopReason.REPEATED})


def behaviour(episodes: Sequence[Episode]) -> dict[str, float]:
    """Means of an episode: steps, calls, sampled tokens, and the share that a limit ended."""
    count = max(1, len(episodes))
    turns = [turn for episode in episodes for turn in episode.turns]
    return {
        "steps": len(turns) / count,
        "calls": sum(len(turn.reply.tool_calls) for turn in turns) / count,
        "tokens": sum(len(turn.sampled_ids) for turn in turns) / count,
        "limits": sum(episode.stop_reason in LIMITS for episode in episodes) / count,
    }
