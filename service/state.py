"""State: everything that endpoints may reach, made once by `app.py`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends
from starlette.requests import Request

from agents.toolsets import Toolbox
from service.auth import Callers
from service.books import BooksAsync
from service.chat.service import ChatDesk
from service.feedback.service import FeedbackDesk
from service.fleet import Fleet
from service.keys.service import KeyRing
from service.rounds.service import RoundOffice
from service.runs.service import Runs
from service.settings import Settings
from service.swap import Swap
from service.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class State:
    """The running service."""

    settings: Settings
    books: BooksAsync
    fleet: Fleet
    swap: Swap
    runs: Runs
    chats: ChatDesk
    feedback: FeedbackDesk
    rounds: RoundOffice
    keys: KeyRing
    callers: Callers
    telemetry: Telemetry
    toolbox: Toolbox


async def _state(request: Request) -> State:
    state: State = request.app.state.ratchet
    return state


Room = Annotated[State, Depends(_state)]
