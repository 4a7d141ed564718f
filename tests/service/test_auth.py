"""Keys and roles: closed by default, hashed, revocable."""

from __future__ import annotations

import asyncio
import stat
from datetime import UTC, datetime

import httpx
import pytest

from agents.scripted import ScriptedEngine
from bank.api_key import KeyRole
from service.app import create_app
from service.auth import OPEN_PATHS, Callers, secret_hash
from service.errors import ServiceError
from service.jobs import MemoryJobs
from service.settings import Settings

OPERATOR_CALLS = [
    ("GET", "/v1/rounds"),
    ("POST", "/v1/rounds"),
    ("GET", "/v1/rounds/rnd_x"),
    ("POST", "/v1/rounds/rnd_x/cancel"),
    ("GET", "/v1/checkpoints"),
    ("GET", "/v1/checkpoints/base"),
    ("GET", "/v1/deployment"),
    ("GET", "/v1/deployment/history"),
    ("POST", "/v1/deployment/promote"),
    ("POST", "/v1/deployment/rollback"),
    ("GET", "/v1/bank"),
    ("GET", "/v1/audit"),
    ("POST", "/v1/keys"),
    ("DELETE", "/v1/keys/key_x"),
]


WRONG_KEYS = [
    "",
    "rk_operator",
    "Basic rk_operator",
    "Bearer",
    "Bearer ",
    "Bearer rk_",
    "Bearer rk_operato",
    "Bearer rk_operatorx",
]


async def test_wrong_key_is_401_and_stores_nothing(serve):
    async with serve() as service:
        for header in WRONG_KEYS:
            headers = {"Authorization": header}
            answer = await service.client.post("/v1/agent/runs", json={"input": "a"}, headers=headers)

            assert (header, answer.status_code, answer.json()["error"]["code"]) == (header, 401, "unauthorized")
            assert answer.headers["www-authenticate"] == "Bearer"
        assert service.episodes() == ()


async def test_every_route_but_the_open_ones_needs_a_key(serve):
    async with serve() as service:
        paths = service.app.openapi()["paths"]
        asked = [(method.upper(), path) for path, verbs in paths.items() for method in verbs]
        answers = {
            path: (await service.client.request(method, path, headers={"Authorization": ""})).status_code
            for method, path in asked
        }

        assert {path for path, status in answers.items() if status != 401} == set(paths) & OPEN_PATHS
        assert len(paths) > 15


async def test_user_key_opens_no_operator_call(serve, keys):
    bodies = {"/v1/deployment/promote": {"checkpoint": "base"}, "/v1/keys": {}}
    async with serve() as service:
        for method, path in OPERATOR_CALLS:
            options = {"json": bodies[path]} if path in bodies else {}
            answer = await service.client.request(method, path, headers=keys["user"], **options)

            assert (path, answer.status_code, answer.json()["error"]["code"]) == (path, 403, "forbidden")


async def test_operator_calls_above_are_all_there_are(serve):
    async with serve() as service:
        paths = service.app.openapi()["paths"]

    listed = {(method.upper(), path) for path, verbs in paths.items() for method in verbs}
    users = ("/v1/agent", "/v1/chat", "/v1/models", "/v1/toolsets", "/feedback")
    open_to_users = {entry for entry in listed if entry[1].startswith(users)}
    probes = {entry for entry in listed if entry[1] in OPEN_PATHS}
    assert len(listed - open_to_users - probes) == len(OPERATOR_CALLS)


async def test_made_key_works_until_it_is_revoked_and_only_its_hash_is_stored(serve):
    async with serve() as service:
        made = (await service.client.post("/v1/keys", json={"role": "user", "label": "app"})).json()
        headers = {"Authorization": f"Bearer {made['key']}"}
        before = await service.client.get("/v1/agent/runs", headers=headers)
        revoked = await service.client.delete(f"/v1/keys/{made['id']}")
        after = await service.client.get("/v1/agent/runs", headers=headers)
        stored = service.read(lambda books: books.keys.get(made["id"]))

        assert made["key"].startswith("rk_")
        assert (before.status_code, revoked.status_code, after.status_code) == (200, 200, 401)
        assert stored.hash == secret_hash(made["key"])
        assert made["key"] not in str(service.read(lambda books: books.audit.latest(10)))


class Clock:
    """Moves when told."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


async def test_key_revoked_elsewhere_is_believed_no_longer_than_stated(serve):
    async with serve() as service:
        clock = Clock()
        callers = Callers(service.state.books, 1.0, clock)
        assert (await callers.identify("Bearer rk_user")).id == "key_rk_user"
        service.write(lambda books: books.keys.revoke("key_rk_user", datetime.now(UTC)))
        clock.now += 0.5
        assert (await callers.identify("Bearer rk_user")).id == "key_rk_user"
        clock.now += 0.5
        with pytest.raises(ServiceError):
            await callers.identify("Bearer rk_user")


async def test_revocation_during_a_look_up_is_not_forgotten(serve):
    async with serve() as service:
        callers = Callers(service.state.books, 60.0)
        looking = asyncio.create_task(callers.identify("Bearer rk_user"))
        await asyncio.sleep(0)  # it has asked, and has no answer yet
        callers.forget()
        assert (await looking).id == "key_rk_user"
        service.write(lambda books: books.keys.revoke("key_rk_user", datetime.now(UTC)))
        with pytest.raises(ServiceError):
            await callers.identify("Bearer rk_user")


async def test_last_operators_key_can_not_be_revoked(serve):
    async with serve() as service:
        answer = await service.client.delete("/v1/keys/key_rk_operator")

        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "last_operator")
        assert (await service.client.get("/v1/audit")).status_code == 200


async def test_first_start_prints_an_operator_key_once_and_keeps_it_private(tmp_path, capsys):
    settings = Settings(data=tmp_path)
    for expected in (1, 0):
        app = create_app(settings, engine=ScriptedEngine(lambda _: "done"), jobs=MemoryJobs())
        async with app.router.lifespan_context(app):
            secret = (tmp_path / "operator.key").read_text().strip()
            transport, headers = httpx.ASGITransport(app), {"Authorization": f"Bearer {secret}"}
            async with httpx.AsyncClient(transport=transport, base_url="http://r", headers=headers) as client:
                assert (await client.get("/v1/audit")).status_code == 200
        assert capsys.readouterr().out.count(secret) == expected

    assert stat.S_IMODE((tmp_path / "operator.key").stat().st_mode) == 0o600


async def test_installation_with_a_broker_leaves_no_key_on_disk(tmp_path, capsys):
    app = create_app(
        Settings(data=tmp_path, broker_url="redis://nowhere"),
        engine=ScriptedEngine(lambda _: "done"),
        jobs=MemoryJobs(),
    )
    async with app.router.lifespan_context(app):
        operators = await app.state.ratchet.books.read(lambda books: books.keys.count(KeyRole.OPERATOR))

    assert operators == 1
    assert "rk_" in capsys.readouterr().out
    assert not (tmp_path / "operator.key").exists()
