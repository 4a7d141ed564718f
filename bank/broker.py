"""broker: what gateway, workers and clock must agree on about the message broker, and what is refused at a start.

Messages are wake-up calls: the ledger says what there is to do, so a broker that loses everything loses nothing. What these
checks exclude is a broker that works against us: one that throws messages out, or delivers those of a long task again.
"""

from __future__ import annotations

from redis import Redis
from redis.exceptions import RedisError

ROUNDS_QUEUE = "rounds"
RELAY_QUEUE = "relay"
RUN_ROUND = "ratchet.run_round"
"""Task name. Argument: round id."""

AGREED = "ratchet:visibility_timeout"
"""Key under which the processes that are alive say what they were started with."""
AGREED_SECONDS = 60
"""How long a process is remembered that says nothing more."""
SAFE_POLICY = "noeviction"
CONNECT_SECONDS = 3.0
ANSWER_SECONDS = 5.0


class BrokerRefused(Exception):
    """The broker would lose or double messages by its configuration; the message says what to set."""


class BrokerAway(Exception):
    """Nobody answers at the broker's address now."""


def check_broker(url: str, visibility_seconds: int) -> None:
    """Look at a Redis broker as every process does when it starts. Raises `BrokerRefused` and `BrokerAway`.

    Brokers of another kind are not looked into.
    """
    if not url.startswith(("redis://", "rediss://")):
        return
    try:
        with _connected(url) as redis:
            _check_policy(redis)
            _agree(redis, visibility_seconds)
    except RedisError as error:
        raise BrokerAway(str(error)) from error


def _connected(url: str) -> Redis:
    return Redis.from_url(
        url, socket_connect_timeout=CONNECT_SECONDS, socket_timeout=ANSWER_SECONDS, decode_responses=True
    )


def _check_policy(redis: Redis) -> None:
    policy = str(redis.info("memory").get("maxmemory_policy", SAFE_POLICY))
    if policy != SAFE_POLICY:
        raise BrokerRefused(f"the broker's maxmemory-policy is {policy}, which evicts queues; set it to {SAFE_POLICY}")


def _agree(redis: Redis, visibility_seconds: int) -> None:
    """The shortest timeout of all processes on a broker wins, so they must all have the same."""
    redis.set(AGREED, visibility_seconds, nx=True, ex=AGREED_SECONDS)
    agreed = int(redis.get(AGREED) or visibility_seconds)
    if agreed != visibility_seconds:
        raise BrokerRefused(
            f"RATCHET_BROKER_VISIBILITY_SECONDS is {visibility_seconds} here and {agreed} in another process on this "
            f"broker; give all the same, or stop the others {AGREED_SECONDS} seconds before"
        )
    redis.expire(AGREED, AGREED_SECONDS)
