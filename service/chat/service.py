"""ChatDesk: finds the conversation, leases the version, records the answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from bank.episode import Episode, StopReason
from bank.ledger.errors import SlotTaken
from bank.ledger.ledger import Books
from bank.ledger.outcome import Outcome
from service.auth import Caller
from service.books import BooksAsync
from service.chat.schemas import ChatRequest
from service.chat.thread import Thread, find_thread
from service.chat.transcript import Transcript, fingerprint, read_transcript
from service.chat.turn import Answer, ChatTurn, Question
from service.chat.wish import Wish
from service.errors import RETRY_AFTER, ServiceError
from service.fleet import Fleet, Lease, NoReplica
from service.runs.service import Runs
from service.telemetry import Telemetry

Settle = Callable[[Books, Episode], None]
"""What is due when a conversation that others may have judged already has ended."""
STUDENT = "student"
"""The alias that every client may use."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A new conversation on its way to the ledger."""

    episode: Episode
    owner: str
    seen: str
    """Its fingerprint."""


class ChatDesk:
    """The rules of chat."""

    def __init__(self, books: BooksAsync, fleet: Fleet, runs: Runs, telemetry: Telemetry, settle: Settle) -> None:
        self._books = books
        self._fleet = fleet
        self._runs = runs
        self._telemetry = telemetry
        self._settle = settle

    async def ask(self, request: ChatRequest, caller: Caller, named: str | None) -> ChatTurn:
        """A turn in progress; `named` is the episode to go on with. Raises `ServiceError`."""
        transcript = read_transcript(request.messages)
        self._require_known(request.model)
        thread = await self._thread(transcript, caller, named, stored=request.store is not False)
        with ExitStack() as held:
            lease = self._lease(held)
            self._require_served(request.model, lease)
            thread = thread.of_version(lease.version, lease.digest)
            stored = request.store is not False
            question = Question(thread, Wish(request), request.sampling(), caller.id, stored=stored)
            turn = ChatTurn(question, lease, self._record)
            held.enter_context(self._runs.host(turn))
            turn.start(held.pop_all())
            return turn

    async def _thread(self, transcript: Transcript, caller: Caller, named: str | None, *, stored: bool) -> Thread:
        if not stored or (named is None and not transcript.answered):  # nothing on record that it could go on with
            return Thread(transcript)
        return await self._books.read(lambda books: find_thread(books, transcript, caller, named))

    def _lease(self, held: ExitStack) -> Lease:
        try:
            return held.enter_context(self._fleet.lease())
        except NoReplica as error:
            raise ServiceError(503, "not_ready", str(error), headers=RETRY_AFTER) from None

    def _require_known(self, model: str) -> None:
        pointer = self._fleet.pointer
        if model != STUDENT and pointer is not None and model != pointer.name:
            raise ServiceError(404, "model_not_found", f"ask for `{STUDENT}`, or for the version that answers now")

    def _require_served(self, model: str, lease: Lease) -> None:
        if model not in (STUDENT, lease.version):
            raise ServiceError(409, "version_changed", "another version answers now; ask again", headers=RETRY_AFTER)

    async def _record(self, question: Question, answer: Answer) -> None:
        if not question.stored:
            return
        known = question.thread.episode
        seen = fingerprint((*question.thread.transcript.messages, answer.shown))
        if known is None:
            await self._books.write_part(_begin_all, Begun(answer.episode, question.owner, seen))
        else:
            await self._extend(answer.episode, len(known.turns), question.owner, seen)
        if answer.episode.stop_reason is not StopReason.WAITING:
            self._telemetry.count_run(answer.episode)

    async def _extend(self, episode: Episode, known: int, owner: str, seen: str) -> None:
        def write(books: Books) -> None:
            books.episodes.extend(episode, known)
            self._settle(books, episode)
            books.conversations.place(episode.id, owner, seen)

        try:
            await self._books.write(write)
        except SlotTaken:
            message = "this conversation went on in another request"
            raise ServiceError(409, "conversation_moved", message) from None


def _begin_all(books: Books, begun: Sequence[Begun]) -> list[Outcome]:
    books.episodes.add_all([one.episode for one in begun])
    books.conversations.begin([(one.episode.id, one.owner, one.seen) for one in begun])
    return [Outcome()] * len(begun)
