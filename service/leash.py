"""`python -m service.leash PARENT COMMAND...`: become COMMAND, and die when PARENT does.

A worker that outlives a killed `ratchet up` would keep the experience index locked. Linux can promise
that it doesn't (PR_SET_PDEATHSIG survives exec); on other systems this is a plain exec.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Sequence

PR_SET_PDEATHSIG = 1


def main(arguments: Sequence[str]) -> None:
    """Replace this process by the command; exits with 1 if the parent is gone already."""
    parent, command = int(arguments[0]), list(arguments[1:])
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            sys.exit(1)
    os.execvp(command[0], command)  # noqa: S606  # the command is the supervisor's own


if __name__ == "__main__":
    main(sys.argv[1:])
