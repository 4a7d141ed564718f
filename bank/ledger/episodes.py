"""Episodes: runs as they happened, with the exact tokens."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Connection, Row, Select, bindparam, func, select, tuple_, update
from sqlalchemy.exc import IntegrityError

from bank.episode import Episode, Turn
from bank.ledger.conversations import Conversations
from bank.ledger.errors import InvalidRecord, NotFound, SlotTaken
from bank.ledger.many import insert_rows
from bank.ledger.tables.episodes import episodes, turns
from bank.message import Message

OWNERS = select(episodes.c.id, episodes.c.owner).where(episodes.c.id.in_(bindparam("ids", expanding=True)))
"""Built once: every group of feedback asks it."""


class Episodes:
    """Repository of episodes and turns."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def add(self, episode: Episode) -> None:
        """Store a run. Raises `InvalidRecord` when it can't be read back exactly, `SlotTaken` for a used id."""
        self.add_all([episode])

    def add_all(self, runs: Sequence[Episode]) -> None:
        """Store runs with two statements in all. Raises as `add`; the transaction has to end then."""
        for episode in runs:
            for turn in episode.turns:
                _check_aligned(episode.id, turn)
        rows = [_turn_values(run.id, position, turn) for run in runs for position, turn in enumerate(run.turns)]
        try:
            insert_rows(self._connection, episodes, [_episode_values(episode) for episode in runs])
            insert_rows(self._connection, turns, rows)
            for run in runs:
                Conversations(self._connection).keep_results(run.id, run.whole_results)
        except IntegrityError as error:
            raise SlotTaken(f"there is an episode among {', '.join(run.id for run in runs)} already") from error

    def extend(self, episode: Episode, known: int) -> None:
        """Store how a conversation went on: its turns from number `known` on, what answered the turn before, its end.

        Raises `SlotTaken` when somebody else has extended it since, `InvalidRecord`, `NotFound`.
        """
        for turn in episode.turns:
            _check_aligned(episode.id, turn)
        length = select(func.count()).select_from(turns).where(turns.c.episode_id == episode.id)
        # the update comes first: from here on nobody else writes this episode
        ended = update(episodes).where(episodes.c.id == episode.id).values(stop_reason=episode.stop_reason)
        if self._connection.execute(ended).rowcount == 0:
            raise NotFound(f"there is no episode {episode.id}")
        if self._connection.execute(length).scalar_one() != known:
            raise SlotTaken(f"{episode.id} went on in another request")
        last = (turns.c.episode_id == episode.id) & (turns.c.position == known - 1)
        answers = _wire(episode.turns[known - 1].observations)
        self._connection.execute(update(turns).where(last).values(observations=answers))
        rows = [_turn_values(episode.id, known + extra, turn) for extra, turn in enumerate(episode.turns[known:])]
        insert_rows(self._connection, turns, rows)

    def get(self, episode_id: str) -> Episode | None:
        """One episode."""
        found = self._load(select(episodes).where(episodes.c.id == episode_id))
        return found[0] if found else None

    def get_many(self, ids: Iterable[str]) -> tuple[Episode, ...]:
        """Those of these episodes that are there, in no order."""
        return self._load(select(episodes).where(episodes.c.id.in_(list(ids))))

    def owner(self, episode_id: str) -> str | None:
        """Whose run it was, without reading it; None for nobody's. Raises `NotFound`."""
        found = self.owners([episode_id])
        if episode_id not in found:
            raise NotFound(f"there is no episode {episode_id}")
        return found[episode_id]

    def owners(self, ids: Iterable[str]) -> dict[str, str | None]:
        """Whose runs they were, without reading them: None for nobody's, nothing for those that are not there."""
        rows = self._connection.execute(OWNERS, {"ids": list(ids)})
        return {episode_id: owner for episode_id, owner in rows}  # noqa: C416 - rows are no pairs to mypy

    def latest(self, limit: int, before: str | None = None) -> tuple[Episode, ...]:
        """Newest first; `before` is the id of the last episode of the previous page."""
        age = tuple_(episodes.c.created_at, episodes.c.number)
        query = select(episodes).order_by(episodes.c.created_at.desc(), episodes.c.number.desc()).limit(limit)
        if before is not None:
            edge = select(episodes.c.created_at, episodes.c.number).where(episodes.c.id == before).scalar_subquery()
            query = query.where(age < edge)
        return self._load(query)

    def of_version(self, policy: str, digest: str, limit: int) -> tuple[Episode, ...]:
        """Episodes that exactly this version served, newest first."""
        mine = (episodes.c.policy == policy) & (episodes.c.digest == digest)
        newest = (episodes.c.created_at.desc(), episodes.c.number.desc())
        return self._load(select(episodes).where(mine).order_by(*newest).limit(limit))

    def count(self, policy: str | None = None, min_reward: float | None = None) -> int:
        """Number of episodes: of one version, with at least this verified reward."""
        query = select(func.count()).select_from(episodes)
        if policy is not None:
            query = query.where(episodes.c.policy == policy)
        if min_reward is not None:
            query = query.where(episodes.c.reward >= min_reward)
        return int(self._connection.execute(query).scalar_one())

    def reward_by_policy(self) -> dict[str, tuple[int, float]]:
        """Version name to (verified episodes, mean reward); unverified episodes are left out."""
        mean = func.avg(episodes.c.reward)
        query = select(episodes.c.policy, func.count(), mean).where(episodes.c.reward.is_not(None))
        rows = self._connection.execute(query.group_by(episodes.c.policy))
        return {policy: (int(number), float(reward)) for policy, number, reward in rows}

    def _load(self, query: Select[Any]) -> tuple[Episode, ...]:
        rows = self._connection.execute(query).all()
        by_episode = self._turns([row.id for row in rows])
        return tuple(_episode(row, by_episode[row.id]) for row in rows)

    def _turns(self, ids: Sequence[str]) -> defaultdict[str, list[Turn]]:
        found: defaultdict[str, list[Turn]] = defaultdict(list)
        query = select(turns).where(turns.c.episode_id.in_(ids)).order_by(turns.c.episode_id, turns.c.position)
        for row in self._connection.execute(query):
            found[row.episode_id].append(_turn(row))
        return found


def _check_aligned(episode_id: str, turn: Turn) -> None:
    if len(turn.sampled_ids) != len(turn.logprobs):
        raise InvalidRecord(
            f"{episode_id}: {len(turn.sampled_ids)} sampled tokens but {len(turn.logprobs)} log-probabilities"
        )


def _episode_values(episode: Episode) -> dict[str, Any]:
    return {
        "id": episode.id,
        "created_at": episode.created_at,
        "task_id": episode.task_id,
        "suite": episode.suite,
        "split": episode.split,
        "task": episode.task,
        "policy": episode.policy,
        "digest": episode.digest,
        "opening": _wire(episode.opening),
        "stop_reason": episode.stop_reason,
        "reward": episode.reward,
        "fault": episode.fault,
        "owner": episode.owner,
    }


def _turn_values(episode_id: str, position: int, turn: Turn) -> dict[str, Any]:
    return {
        "episode_id": episode_id,
        "position": position,
        "prompt_ids": turn.prompt_ids,
        "sampled_ids": turn.sampled_ids,
        "logprobs": turn.logprobs,
        "reply": turn.reply.to_wire(),
        "observations": _wire(turn.observations),
    }


def _episode(row: Row[Any], its_turns: Iterable[Turn]) -> Episode:
    return Episode(
        id=row.id,
        created_at=row.created_at,
        task_id=row.task_id,
        suite=row.suite,
        split=row.split,
        task=row.task,
        policy=row.policy,
        digest=row.digest,
        opening=_messages(row.opening),
        turns=tuple(its_turns),
        stop_reason=row.stop_reason,
        reward=row.reward,
        fault=row.fault,
        owner=row.owner,
    )


def _turn(row: Row[Any]) -> Turn:
    return Turn(
        prompt_ids=row.prompt_ids,
        sampled_ids=row.sampled_ids,
        logprobs=row.logprobs,
        reply=Message.from_wire(row.reply),
        observations=_messages(row.observations),
    )


def _wire(messages: Iterable[Message]) -> list[dict[str, Any]]:
    return [message.to_wire() for message in messages]


def _messages(wire: Iterable[dict[str, Any]]) -> tuple[Message, ...]:
    return tuple(Message.from_wire(message) for message in wire)
