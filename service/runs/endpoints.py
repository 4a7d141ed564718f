"""POST and GET /v1/agent/runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from bank.episode import Episode, StopReason
from bank.feedback import Feedback
from bank.ledger.ledger import Books
from service.auth import User
from service.body import StrictRoute
from service.errors import ERRORS, RETRY_AFTER, ServiceError
from service.runs.schemas import RunList, RunRecord, RunReply, RunRequest, WholeResult
from service.runs.service import Order
from service.runs.stream import CLIENT_CLOSED, CallerGone, RunStream, unless_gone
from service.state import Room
from service.wire import Limit

router = APIRouter(prefix="/v1/agent/runs", tags=["runs"], route_class=StrictRoute, responses=ERRORS)

PAGES = 20
"""Pages of everybody's runs that are looked through for one user's."""


@router.post("", status_code=201, response_model=RunReply)
async def run_agent(request: Request, body: RunRequest, room: Room, caller: User) -> RunReply | Response:
    """Run the agent; the answer comes when the episode is on record. With `stream`, as server-sent events."""
    limits, sampling = body.limits.limits(), body.sampling.sampling()
    what = body.task_id, body.input, body.environment, body.toolset
    live = await room.runs.start(Order(caller.id, limits, sampling, *what))
    if body.stream:
        return RunStream(live)
    try:
        episode = await unless_gone(live.end(), request.receive)
    except CallerGone:
        live.cancel()
        await live.end()
        raise ServiceError(CLIENT_CLOSED, "client_closed", "the client left; the run was cancelled") from None
    if episode.stop_reason is StopReason.CANCELLED:
        raise ServiceError(503, "shutting_down", "the service is stopping; the run was ended", headers=RETRY_AFTER)
    return RunReply.of(episode)


@router.get("/{run_id}")
async def get_run(run_id: str, room: Room, caller: User) -> RunRecord:
    """A recorded run with its feedback."""

    def read(books: Books) -> tuple[Episode | None, tuple[Feedback, ...]]:
        return books.episodes.get(run_id), books.feedback.of_episode(run_id)

    playing = room.runs.playing(run_id)
    if playing is not None and caller.may_see(playing.run.owner):
        raise ServiceError(409, "run_in_progress", "the run has not ended yet", headers=RETRY_AFTER)
    episode, feedback = await room.books.read(read)
    if episode is None or not caller.may_see(episode.owner):
        raise ServiceError(404, "unknown_run", "there is no such run")
    return RunRecord.with_feedback(episode, feedback)


@router.get("/{run_id}/results/{call_id}")
async def get_whole_result(run_id: str, call_id: str, room: Room, caller: User) -> WholeResult:
    """What a tool answered before it was cut for the prompt."""

    def read(books: Books) -> str | None:
        return books.conversations.result(run_id, call_id) if caller.may_see(books.episodes.owner(run_id)) else None

    text = await room.books.read(read)
    if text is None:
        raise ServiceError(404, "not_found", "there is no such run, or this result was not cut")
    return WholeResult(call_id=call_id, text=text)


@router.get("")
async def list_runs(
    room: Room, caller: User, limit: Limit = 20, before: Annotated[str | None, Query(max_length=100)] = None
) -> RunList:
    """Newest first; `before` is the last id of the previous page. Users see their own."""

    def read(books: Books) -> list[Episode]:
        found, edge = list[Episode](), before
        for _ in range(PAGES):
            page = books.episodes.latest(limit, edge)
            found += [episode for episode in page if caller.may_see(episode.owner)]
            if len(page) < limit or len(found) >= limit:
                break
            edge = page[-1].id
        return found[:limit]

    return RunList(runs=[RunReply.of(episode) for episode in await room.books.read(read)])
