"""The program inside the sandbox: reads code and inputs from stdin, writes what the code returned to stdout.

It never sees an expected value, so there is nothing to forge: the parent compares. Limits of the system (CPU seconds, memory,
file size, open files) are set before the candidate's code is compiled, and an audit hook, which Python code can't take away,
refuses files, sockets, processes and foreign functions from then on. That stops mistakes and casual mischief; against a
determined attacker run the whole worker in a container without network.
"""

from __future__ import annotations

import io
import json
import os
import resource
import sys
from types import CodeType
from typing import Any

REFUSED = ("open", "socket.", "subprocess.", "os.", "shutil.", "ctypes.", "pty.", "fcntl.", "signal.", "import", "sys.")
ENTRY = "solve"
FAILED = "failed"
VALUE = "value"


def main() -> None:
    """Run every input; one line of JSON out."""
    job = json.loads(sys.stdin.read())
    out = os.fdopen(os.dup(1), "w")
    sys.stdout = sys.stderr = io.StringIO()
    _limit(job["seconds"], job["bytes"])
    # what the candidate may import must be there before the hook forbids the files behind it
    for name in job["modules"]:
        __import__(name)
    answers = [_answer(job["code"], arguments) for arguments in job["inputs"]]
    out.write(json.dumps(answers))
    out.flush()
    os._exit(0)


def _limit(seconds: int, memory: int) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _answer(code: str, arguments: list[Any]) -> dict[str, Any]:
    try:
        scope: dict[str, Any] = {"__name__": "candidate"}
        exec(_compiled(code), scope)  # noqa: S102 - this is what the sandbox is for
        return {VALUE: json.loads(json.dumps(scope[ENTRY](*arguments)))}
    except BaseException as error:  # noqa: BLE001 - whatever a candidate raises, exits included, is its answer
        return {FAILED: f"{type(error).__name__}: {error}"[:200]}


def _compiled(code: str) -> CodeType:
    compiled = compile(code, "<candidate>", "exec")
    if not _guard.on:
        sys.addaudithook(_guard)
        _guard.on = True
    return compiled


class _Guard:
    """Refuses events from the moment it is switched on."""

    on = False

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not event.startswith(REFUSED) or (event == "import" and arguments[0] in sys.modules):
            return
        if event in ("sys._getframe", "sys.unraisablehook", "sys.excepthook"):
            return
        raise PermissionError(f"{event} is not allowed here")


_guard = _Guard()

if __name__ == "__main__":
    main()
