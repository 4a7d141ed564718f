"""The process in which a blocking tool runs: one line of JSON in, one line out, until stdin ends.

A thread watches stdin, so that the process ends with its parent even while a tool hangs.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
from typing import Any, TextIO

from agents.tools.functions import apply, as_text, find

TEXT, ERROR = "text", "error"


def main() -> None:
    """Answer calls."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a tool prints is no answer
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(sys.stdin, lines), daemon=True).start()
    while True:
        out.write(json.dumps(_answer(json.loads(lines.get()))) + "\n")
        out.flush()


def _read(stdin: TextIO, lines: queue.SimpleQueue[str]) -> None:
    for line in stdin:
        lines.put(line)
    os._exit(0)


def _answer(call: dict[str, Any]) -> dict[str, str]:
    try:
        return {TEXT: as_text(apply(find(call["function"]), call["arguments"]))}
    except BaseException as error:  # noqa: BLE001 - whatever a tool raises, exits included, is what the model hears
        return {ERROR: _told(error)}


def _told(error: BaseException) -> str:
    detail = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return detail or type(error).__name__


if __name__ == "__main__":
    main()
