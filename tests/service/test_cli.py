"""The command line against a real service on a real port; only the model is scripted."""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvicorn

from agents.scripted import ScriptedEngine
from service.app import create_app
from service.cli.program import main
from service.client import RatchetClient, operator_key
from service.demo.server import free_port
from service.jobs import MemoryJobs
from service.settings import Settings

TASK = "order_desk-0/train/0001"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URL and operator key of a running service."""
    data, port = tmp_path_factory.mktemp("data"), free_port()
    app = create_app(Settings(data=data), engine=ScriptedEngine(lambda _: "done"), jobs=MemoryJobs())
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_config=None))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the service did not start"
        time.sleep(0.02)
    key = operator_key(data)
    assert key is not None
    yield f"http://127.0.0.1:{port}", key
    server.should_exit = True
    thread.join()


@pytest.fixture
def run(service: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs one command: exit code, standard output, standard error."""

    def command(*arguments: str, key: str = service[1], url: str = service[0]) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main([*arguments, "--url", url, "--key", key])
        out = capsys.readouterr()
        return int(left.value.code or 0), out.out, out.err

    return command


def episode(run: Run) -> str:
    return json.loads(run("run", "cancel order 17", "--json")[1])["id"]


def test_own_words_are_answered_and_the_version_is_named(run: Run) -> None:
    code, out, _ = run("run", "cancel order 17")
    assert code == 0
    assert "done" in out
    assert "not verified" in out
    assert "base (" in out


def test_task_is_verified_and_streamed_output_says_the_same(run: Run) -> None:
    _, plain, _ = run("run", "--task", TASK)
    _, streamed, _ = run("run", "--task", TASK, "--stream")
    assert "reward 0" in plain
    assert streamed.splitlines()[0] == plain.splitlines()[0] == "done"


def test_streamed_json_is_the_finished_run(run: Run) -> None:
    _, out, _ = run("run", "--task", TASK, "--stream", "--json")
    assert json.loads(out)["task_id"] == TASK


@pytest.mark.parametrize("arguments", [("run",), ("run", "words", "--task", TASK), ("feedback",), ("feedback", "ep_1")])
def test_missing_or_double_arguments_exit_with_two(run: Run, arguments: tuple[str, ...]) -> None:
    code, _, err = run(*arguments)
    assert code == 2
    assert "Traceback" not in err


def test_feedback_is_stored_and_taken_back(run: Run) -> None:
    code, out, _ = run("feedback", episode(run), "--thumbs", "up", "--comment", "well done", "--json")
    row = json.loads(out)
    assert (code, row["value"], row["comment"]) == (0, 1.0, "well done")
    code, out, _ = run("feedback", "--retract", row["id"])
    assert (code, "retracted" in out) == (0, True)


@pytest.mark.parametrize("value", ["1.5", "nan", "sideways", "-1"])
def test_verdict_outside_its_range_is_refused_before_it_is_sent(run: Run, value: str) -> None:
    assert run("feedback", "ep_1", "--value", value)[0] == 2


def test_refusal_is_one_line_on_stderr_and_exit_code_one(run: Run) -> None:
    code, out, err = run("feedback", "ep_unknown", "--value", "0.5")
    assert (code, out) == (1, "")
    assert err.startswith("ratchet: ")
    assert "404 unknown_episode" in err
    assert len(err.splitlines()) == 1


def test_wrong_key_is_refused(run: Run) -> None:
    code, _, err = run("checkpoints", key="rk_wrong")
    assert code == 1
    assert "401" in err


def test_nobody_at_the_url_exits_with_three(run: Run) -> None:
    code, _, err = run("checkpoints", url=f"http://127.0.0.1:{free_port()}")
    assert code == 3
    assert len(err.splitlines()) == 1


def test_rounds_are_started_listed_shown_and_cancelled(run: Run) -> None:
    code, out, _ = run("rounds", "start", "--config", '{"steps": 2}', "--json")
    started = json.loads(out)
    assert (code, started["status"], started["config"]) == (0, "queued", {"steps": 2})
    assert started["id"] in run("rounds", "list")[1]
    assert "queued" in run("rounds", "show", started["id"])[1]
    assert json.loads(run("rounds", "cancel", started["id"], "--json")[1])["status"] == "cancelled"
    assert "cancelled" in run("rounds", "watch", started["id"])[1]


@pytest.mark.parametrize("config", ["{", "[1]"])
def test_configuration_that_is_no_object_is_refused(run: Run, config: str) -> None:
    assert run("rounds", "start", "--config", config)[0] == 2


def test_base_is_a_checkpoint_like_any_other(run: Run) -> None:
    assert "base" in run("checkpoints")[1]
    assert json.loads(run("checkpoints", "base", "--json")[1])["status"] == "live"
    assert "digest" in run("checkpoints", "base")[1]
    assert run("checkpoints", "student-none")[0] == 1


def test_promote_says_what_is_served_and_rollback_refuses_without_a_past(run: Run) -> None:
    code, _, err = run("rollback")
    assert code == 1
    assert "nothing_to_roll_back" in err
    code, _, err = run("promote", "student-none", "--reason", "to see")
    assert code == 1
    assert "unknown_checkpoint" in err


def test_doctor_sees_the_running_service(run: Run, tmp_path: Path) -> None:
    _, out, _ = run("doctor", "--data", str(tmp_path), "--json")
    levels = {line["check"]: line["level"] for line in json.loads(out)}
    assert levels["service"] == levels["ready"] == levels["live version"] == "ok"
    assert "live version" in run("doctor", "--data", str(tmp_path))[1]


def test_key_is_taken_from_the_data_folder(service: tuple[str, str], tmp_path: Path) -> None:
    url, key = service
    (tmp_path / "operator.key").write_text(key)
    environment = {**os.environ, "RATCHET_DATA": str(tmp_path), "RATCHET_URL": url}
    environment.pop("RATCHET_API_KEY", None)
    command = [sys.executable, "-m", "service.cli", "checkpoints", "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    assert [row["name"] for row in json.loads(out)["checkpoints"]] == ["base"]


def test_client_of_a_running_service_is_ready(service: tuple[str, str]) -> None:
    with RatchetClient(*service) as client:
        assert client.ready()


COMMANDS = ("up", "demo", "run", "feedback", "rounds", "checkpoints", "promote", "rollback", "doctor")


@pytest.mark.parametrize("command", [(), *((name,) for name in COMMANDS), ("rounds", "watch")])
def test_help_everywhere(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        main([*command, "--help"])
    assert left.value.code == 0
    assert "Usage: ratchet" in capsys.readouterr().out
