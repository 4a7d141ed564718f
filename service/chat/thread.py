"""Thread: the episode that a request goes on with, or begins."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from bank.episode import Episode
from bank.ledger.ledger import Books
from bank.message import Message, Role
from service.auth import Caller
from service.chat.transcript import Transcript, fingerprint
from service.errors import ServiceError


@dataclass(frozen=True, slots=True)
class Thread:
    """One conversation at the moment of a request."""

    transcript: Transcript
    episode: Episode | None = None
    """As recorded, with the client's news as observations of its last turn; None for a new one."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """What the model is asked to go on with: what it really said and saw, where that is on record."""
        return self.transcript.messages if self.episode is None else self.episode.messages

    def of_version(self, policy: str, digest: str) -> Thread:
        """An episode has one version: a conversation that meets another one goes on as a new episode."""
        same = self.episode is not None and (self.episode.policy, self.episode.digest) == (policy, digest)
        return self if same else replace(self, episode=None)


def find_thread(books: Books, transcript: Transcript, owner: Caller, named: str | None) -> Thread:
    """By the id that the client names, else by what was said so far. Raises `ServiceError` 404, 409."""
    seen = fingerprint(transcript.messages[: transcript.answered])
    found = books.conversations.find(owner.id, seen) if transcript.answered else None
    if named is None:
        return _joined(books, transcript, found)
    episode = books.episodes.get(named)
    if episode is None or episode.owner != owner.id:
        raise ServiceError(404, "unknown_episode", "there is no such episode")
    if not books.conversations.is_at(named, seen):
        raise ServiceError(409, "conversation_diverged", "the messages are not how this episode went on record")
    return _joined(books, transcript, named)


def _joined(books: Books, transcript: Transcript, episode_id: str | None) -> Thread:
    episode = books.episodes.get(episode_id) if episode_id is not None else None
    if episode is None or not episode.turns:
        return Thread(transcript)
    last = episode.turns[-1]
    observations = _observations(last.reply, last.observations, transcript)
    turns = (*episode.turns[:-1], replace(last, observations=observations))
    return Thread(transcript, replace(episode, turns=turns))


def _observations(reply: Message, known: tuple[Message, ...], transcript: Transcript) -> tuple[Message, ...]:
    """Answers in the order of the calls: our own errors, and the client's results under our ids; then what else it said."""
    ours = {message.tool_call_id: message for message in known if message.role is Role.TOOL}
    handed_out = [call.id for call in reply.tool_calls if call.id not in ours]
    theirs = [call.id for call in transcript.messages[transcript.answered - 1].tool_calls]
    names = dict(zip(theirs, handed_out, strict=False))
    for message in transcript.news:
        if message.role is Role.TOOL and message.tool_call_id in names:
            own = names[message.tool_call_id]
            ours[own] = replace(message, tool_call_id=own)
    answers = [ours[call.id] for call in reply.tool_calls if call.id in ours]
    return (*answers, *_said(transcript.news))


def _said(news: Iterable[Message]) -> list[Message]:
    return [message for message in news if message.role is not Role.TOOL]
