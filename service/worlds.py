"""Worlds: which task a run is about, and a fresh session of it."""

from __future__ import annotations

import hashlib
from collections import OrderedDict

import structlog
from anyio import to_thread

from agents.environment import Environment, Session, Task
from agents.suites import open_suite
from agents.tools.toolset import ToolSession, ToolsetUnavailable
from agents.toolsets import Toolbox
from bank.episode import Split
from service.errors import RETRY_AFTER, ServiceError

log = structlog.get_logger(__name__)

LIVE = "live"
KEPT = 8
"""Suites in memory; a caller may name any, so the number is bounded."""


def live_task(text: str) -> Task:
    """A user's own words as a task."""
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    return Task(f"{LIVE}/{name}", LIVE, Split.LIVE, text)


class Worlds:
    """Opens suites by their spec and keeps the last few."""

    def __init__(self, default: Environment, spec: str, toolbox: Toolbox) -> None:
        self.default = default
        self.toolbox = toolbox
        self._default_spec = spec
        self._open: OrderedDict[str, Environment] = OrderedDict()

    async def task(self, environment: str | None, task_id: str) -> tuple[Task, Session]:
        """A suite's task, reset. Raises `ServiceError` 404."""
        suite = await self._suite(environment)
        try:
            task = suite.task(task_id)
        except KeyError:
            raise ServiceError(404, "unknown_task", f"{suite.name} has no such task") from None
        return task, suite.reset(task)

    async def live(self, environment: str | None, text: str) -> tuple[Task, Session]:
        """A user's own words. The same words are the same task, so that they never retrieve themselves."""
        suite = await self._suite(environment)
        return live_task(text), suite.live(text)

    async def tools(self, toolset: str, text: str) -> tuple[Task, Session]:
        """A user's own words with a toolset. Raises `ServiceError` 404, 503."""
        if toolset not in self.toolbox.names:
            raise ServiceError(404, "unknown_toolset", "there is no such toolset")
        try:
            return live_task(text), ToolSession(await self.toolbox.get(toolset), text)
        except ToolsetUnavailable as error:
            log.warning("toolset unavailable", toolset=toolset, error=str(error))
            message = f"{toolset} does not answer"
            raise ServiceError(503, "toolset_unavailable", message, headers=RETRY_AFTER) from None

    async def _suite(self, spec: str | None) -> Environment:
        if spec is None or spec == self._default_spec:
            return self.default
        if spec not in self._open:
            self._open[spec] = await self._opened(spec)
            if len(self._open) > KEPT:
                self._open.popitem(last=False)
        self._open.move_to_end(spec)
        return self._open[spec]

    async def _opened(self, spec: str) -> Environment:
        try:
            return await to_thread.run_sync(open_suite, spec)
        except (KeyError, ValueError):
            raise ServiceError(404, "unknown_environment", "there is no such environment") from None
