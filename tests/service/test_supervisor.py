import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from service.supervisor import ROTATE_BYTES, Child, Patience, Supervisor
from tests.service.waiting import until

QUICK = Patience(first=0.05, longest=0.2, healthy_after=60.0, stop=0.5)
SLEEPS = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(600)")
IGNORES_TERM = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
PARENT_OF_SLEEPER = (
    "import subprocess, sys, time;"
    "print(subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)']).pid, flush=True); time.sleep(600)"
)


def supervise(tmp_path: Path, *command: str, environment: Mapping[str, str] | None = None) -> Supervisor:
    return Supervisor([Child("child", command)], environment or os.environ, tmp_path / "logs", QUICK)


def alive(pid: int) -> bool:
    """Running and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def log_of(tmp_path: Path) -> str:
    path = tmp_path / "logs" / "child.log"
    return path.read_text() if path.is_file() else ""


def test_killed_child_is_started_again(tmp_path: Path) -> None:
    with supervise(tmp_path, *SLEEPS) as supervisor:
        until(lambda: "up" in log_of(tmp_path))
        first = supervisor.pids()["child"]
        assert first is not None
        os.kill(first, signal.SIGKILL)
        second = until(lambda: (pid := supervisor.pids()["child"]) != first and pid)
        until(lambda: log_of(tmp_path).count("up") == 2)
        assert (tmp_path / "logs" / "child.pid").read_text() == str(second)
    assert not alive(first)
    assert not alive(second)


def test_pause_grows_with_each_early_death(tmp_path: Path) -> None:
    patience = Patience(first=0.2, longest=100.0, healthy_after=60.0, stop=0.5)
    stamps = (sys.executable, "-c", "import time; print(time.time(), flush=True)")
    with Supervisor([Child("child", stamps)], os.environ, tmp_path / "logs", patience):
        starts = until(lambda: (lines := log_of(tmp_path).split())[3:] and [float(line) for line in lines])
    pauses = [later - earlier for earlier, later in itertools.pairwise(starts)]
    assert pauses[0] >= 0.2
    assert pauses[1] >= 0.4
    assert pauses[2] >= 0.8


def test_stop_ends_a_child_that_ignores_sigterm(tmp_path: Path) -> None:
    supervisor = supervise(tmp_path, sys.executable, "-c", IGNORES_TERM)
    supervisor.start()
    until(lambda: "up" in log_of(tmp_path))
    pid = supervisor.pids()["child"]
    supervisor.stop()
    assert pid is not None
    assert not alive(pid)
    assert supervisor.pids() == {"child": None}
    assert not (tmp_path / "logs" / "child.pid").exists()


def test_stop_ends_grandchildren_too(tmp_path: Path) -> None:
    supervisor = supervise(tmp_path, sys.executable, "-c", PARENT_OF_SLEEPER)
    supervisor.start()
    grandchild = int(until(lambda: log_of(tmp_path).strip()))
    supervisor.stop()
    until(lambda: not alive(grandchild))


def test_stop_before_start_and_twice_is_quiet(tmp_path: Path) -> None:
    supervisor = supervise(tmp_path, *SLEEPS)
    supervisor.stop()
    assert supervisor.pids() == {"child": None}
    supervisor.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="the death signal is Linux's")
def test_children_die_with_a_killed_parent(tmp_path: Path) -> None:
    parent = (
        "import os, pathlib, sys, time\n"
        "from service.supervisor import Child, Supervisor\n"
        "child = Child('child', (sys.executable, '-c', \"import time; print('up', flush=True); time.sleep(600)\"))\n"
        f"Supervisor([child], os.environ, pathlib.Path({str(tmp_path / 'logs')!r})).start()\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", parent])
    try:
        until(lambda: "up" in log_of(tmp_path))
        pid = int((tmp_path / "logs" / "child.pid").read_text())
        assert alive(pid)
    finally:
        process.kill()
        process.wait()
    until(lambda: not alive(pid))


def test_large_log_is_put_aside(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "child.log"
    log.parent.mkdir()
    log.write_bytes(b"x" * (ROTATE_BYTES + 1))
    with supervise(tmp_path, *SLEEPS):
        until(lambda: log_of(tmp_path).strip() == "up")
    assert log.with_suffix(".log.1").stat().st_size == ROTATE_BYTES + 1
