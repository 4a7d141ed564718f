"""A run of the agent, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape

LONGEST_RESULT = 200


def print_step(console: Console, step: Mapping[str, Any]) -> None:
    """One model call: what was said, which tools were asked for and what they answered."""
    reply = step["reply"]
    results = {message.get("tool_call_id"): message.get("content", "") for message in step["observations"]}
    if reply.get("content"):
        console.print(escape(reply["content"]))
    for call in reply.get("tool_calls") or ():
        function = call["function"]
        signature = escape(f"{function['name']}({function['arguments']})")
        console.print(f"[cyan]{signature}[/] → {escape(str(results.get(call['id'], ''))[:LONGEST_RESULT])}")


def print_outcome(console: Console, episode: Mapping[str, Any]) -> None:
    """The closing lines: answer, verdict and which version gave it."""
    policy = episode["policy"]
    reward = "not verified" if episode["reward"] is None else f"reward {episode['reward']:g}"
    if episode.get("fault"):
        console.print(f"[red]{escape(str(episode['fault']))}[/]")
    console.print(
        f"[dim]{episode['id']} · {episode['stop_reason']} · {reward} · "
        f"{policy['checkpoint']} ({policy['digest'][:12]})[/]"
    )
