"""Runs a candidate's code on inputs in a process of its own, with limits; see `runner` for what holds it."""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.environment import EnvironmentFault
from agents.worlds.code.runner import FAILED, VALUE

RUNNER = Path(__file__).with_name("runner.py")
MODULES = ("collections", "functools", "itertools", "json", "math", "operator", "re", "string")
"""What a candidate may import."""
KILLED = "killed: out of time or memory"


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one run may use."""

    seconds: int = 2
    """Of CPU; the clock on the wall gets twice as much."""
    memory: int = 512 * 2**20


@dataclass(frozen=True, slots=True)
class Answer:
    """What the code made of one input."""

    value: Any = None
    failure: str | None = None
    """Why there is no value."""


async def run(code: str, inputs: Sequence[Sequence[Any]], bounds: Bounds | None = None) -> list[Answer]:
    """One answer for each input. Raises `EnvironmentFault` when no process can be started."""
    limits = bounds or Bounds()
    job = {"code": code, "inputs": inputs, "seconds": limits.seconds, "bytes": limits.memory, "modules": MODULES}
    with tempfile.TemporaryDirectory(prefix="ratchet-code-") as folder:
        try:
            # -I: no environment, no user site, nothing of this folder on the path; -S: no site packages
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(RUNNER)),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                cwd=folder,
                env={},
            )
        except OSError as error:
            raise EnvironmentFault(f"the sandbox did not start: {error}") from error
        out = await _output(process, json.dumps(job).encode(), 2.0 * limits.seconds)
    return _answers(out, len(inputs))


async def _output(process: asyncio.subprocess.Process, job: bytes, seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            out, _ = await process.communicate(job)
    except TimeoutError:
        return b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return out


def _answers(out: bytes, count: int) -> list[Answer]:
    try:
        found = json.loads(out)
    except ValueError:
        found = None
    if not isinstance(found, list) or len(found) != count or not all(isinstance(each, dict) for each in found):
        return [Answer(failure=KILLED)] * count
    return [Answer(each.get(VALUE), None if VALUE in each else str(each.get(FAILED, KILLED))) for each in found]
