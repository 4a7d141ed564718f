"""Toolsets over the wire."""

from __future__ import annotations

from service.wire import ReplyBody


class ToolsetList(ReplyBody):
    """Names for `toolset` of a run."""

    toolsets: list[str]
