from __future__ import annotations

import subprocess
import sys

import pytest
import torch

from trainer.memory import out_of_memory

GREEDY = """
import sys
from trainer.memory import limit_memory, out_of_memory
if sys.argv[1] == "torch":
    import torch
limit_memory(2_000_000_000)
try:
    torch.ones(2_000_000_000) if sys.argv[1] == "torch" else bytearray(8_000_000_000)
except Exception as error:
    print(type(error).__name__, out_of_memory(error))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA bounds memory on Linux alone")
@pytest.mark.parametrize(("who", "error"), [("torch", "RuntimeError"), ("python", "MemoryError")])
def test_a_bounded_process_runs_out_of_memory_and_lives_to_say_so(who, error):
    done = subprocess.run([sys.executable, "-c", GREEDY, who], capture_output=True, text=True, check=True)
    assert done.stdout == f"{error} True\n"


def test_other_errors_are_not_the_end_of_memory():
    assert out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not out_of_memory(RuntimeError("shapes do not match"))
