import sqlite3
from pathlib import Path

import httpx
import pytest

from bank.ledger.ledger import Ledger
from service.client import RatchetClient
from service.diagnosis.finding import Level
from service.diagnosis.ledger_check import ledger_finding
from service.diagnosis.local import local_findings
from service.diagnosis.remote import judge_pointer, remote_findings
from service.settings import Settings
from tests.postgres_server import running_postgres

POINTER = {"current": "base", "generation": 1, "replicas": [{"name": "local", "versions": ["base"], "ready": True}]}


def levels(findings) -> dict[str, Level]:
    return {finding.check: finding.level for finding in findings}


def client(answers: dict[str, httpx.Response]) -> RatchetClient:
    transport = httpx.MockTransport(lambda request: answers[request.url.path])
    return RatchetClient("http://ratchet", None, transport)


def test_fresh_folder_is_fine_and_stays_untouched(tmp_path: Path) -> None:
    findings = local_findings(Settings(data=tmp_path / "new"))
    found = levels(findings)
    assert found["python"] == found["data folder"] == found["ledger"] == found["queue"] == Level.OK
    assert found["worker"] == Level.WARN
    assert not (tmp_path / "new").exists()


def test_every_finding_that_is_not_ok_says_what_to_do(tmp_path: Path) -> None:
    findings = local_findings(Settings(data=tmp_path, model="missing"))
    assert levels(findings)["model"] == Level.FAIL
    assert all(finding.advice for finding in findings if finding.level is not Level.OK)


def test_current_ledger_is_ok_and_names_its_episodes(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite3'}"
    Ledger.open(url).close()
    finding = ledger_finding(url)
    assert finding.level == Level.OK
    assert "0 episodes" in finding.detail


def test_older_schema_is_a_warning_and_is_not_migrated(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite3"
    Ledger.open(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'ancient'")
    connection.close()
    finding = ledger_finding(f"sqlite:///{path}")
    assert finding.level == Level.WARN
    assert "ancient" in finding.detail
    assert ledger_finding(f"sqlite:///{path}") == finding


def test_postgresql_is_asked_and_not_migrated() -> None:
    with running_postgres() as server:
        url = server.new_database()
        assert "is empty" in ledger_finding(url).detail
        Ledger.open(url).close()
        finding = ledger_finding(url)
    assert finding.level == Level.OK
    assert "0 episodes" in finding.detail


def test_postgresql_that_does_not_answer_fails_without_its_password() -> None:
    finding = ledger_finding("postgresql://ratchet:geheim@127.0.0.1:1/ratchet")
    assert finding.level == Level.FAIL
    assert "geheim" not in finding.detail


@pytest.mark.parametrize("content", [b"not a database, but long enough to be looked at as one" * 40, b""])
def test_file_that_is_no_ledger_fails(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ledger.sqlite3"
    path.write_bytes(content)
    assert ledger_finding(f"sqlite:///{path}").level == Level.FAIL


def test_nobody_listening_is_a_warning_and_ends_the_remote_checks() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with RatchetClient("http://ratchet", None, httpx.MockTransport(refuse)) as api:
        assert levels(remote_findings(api)) == {"service": Level.WARN}


def test_wrong_key_is_named_as_such() -> None:
    refused = httpx.Response(401, json={"error": {"code": "unauthorized", "message": "unknown key"}})
    answers = {"/healthz": httpx.Response(200, json={}), "/readyz": httpx.Response(200, json={})}
    with client({**answers, "/v1/deployment": refused}) as api:
        last = remote_findings(api)[-1]
    assert last.level == Level.FAIL
    assert "RATCHET_API_KEY" in last.advice


def test_live_version_must_be_loaded_on_every_replica() -> None:
    assert judge_pointer(POINTER).level == Level.OK
    missing = {**POINTER, "current": "student-1"}
    assert judge_pointer(missing).level == Level.FAIL
    assert "local" in judge_pointer(missing).detail
