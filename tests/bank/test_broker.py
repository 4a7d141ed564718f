"""What a broker must be like, on a real Redis."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from bank.broker import AGREED, BrokerAway, BrokerRefused, check_broker
from service.demo.server import free_port
from tests.redis_server import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    running = RedisServer(free_port(), tmp_path_factory.mktemp("redis"))
    running.start()
    yield running
    running.kill()


@pytest.fixture
def redis(server: RedisServer) -> Iterator[Redis]:
    with Redis.from_url(server.url) as client:
        client.flushall()
        client.config_set("maxmemory-policy", "noeviction")
        yield client


def test_a_broker_that_evicts_is_refused(redis: Redis, server: RedisServer) -> None:
    redis.config_set("maxmemory-policy", "allkeys-lru")
    with pytest.raises(BrokerRefused, match="allkeys-lru"):
        check_broker(server.url, 100)


@pytest.mark.usefixtures("redis")
def test_processes_with_other_settings_on_one_broker_are_refused(server: RedisServer) -> None:
    check_broker(server.url, 100)
    check_broker(server.url, 100)
    with pytest.raises(BrokerRefused, match="is 10 here and 100 in another process"):
        check_broker(server.url, 10)


def test_what_the_others_have_is_forgotten_when_they_are_gone(redis: Redis, server: RedisServer) -> None:
    check_broker(server.url, 100)
    assert 0 < redis.ttl(AGREED) <= 60
    redis.delete(AGREED)
    check_broker(server.url, 10)


def test_nobody_there_is_told_from_refused(tmp_path: Path) -> None:
    with pytest.raises(BrokerAway):
        check_broker(RedisServer(free_port(), tmp_path).url, 100)


def test_brokers_of_another_kind_are_not_looked_into() -> None:
    check_broker("", 100)
    check_broker("amqp://nobody-there", 100)
