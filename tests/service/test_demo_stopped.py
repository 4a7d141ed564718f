"""A demo that is told to stop in the middle, with real processes."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service.waiting import until

pytest.importorskip("torch", reason="the demo's in-process engine needs the trainer extra")


def processes_naming(folder: Path) -> list[int]:
    """Running processes with this folder on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes() if entry.name.isdigit() else b""
        except OSError:  # gone while we looked
            continue
        if bytes(folder) in words:
            found.append(int(entry.name))
    return found


@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc")
def test_sigterm_ends_the_service_and_removes_the_temporary_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "service.cli", "demo", "--runs", "100000", "--reports", str(tmp_path / "reports")]
    demo = subprocess.Popen(
        command, env={**os.environ, "TMPDIR": str(tmp_path)}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        (key,) = until(lambda: list(tmp_path.glob("ratchet-demo-*/operator.key")))
        folder = key.parent
        assert processes_naming(folder)
        demo.send_signal(signal.SIGTERM)
        assert demo.wait(timeout=60) == 143
    finally:
        demo.kill()
        demo.wait()
    assert until(lambda: not processes_naming(folder))
    assert not folder.exists()
