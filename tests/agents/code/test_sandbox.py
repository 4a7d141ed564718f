import pytest

from agents.worlds.code.sandbox import KILLED, Bounds, run

QUICK = Bounds(seconds=1, memory=256 * 2**20)


async def one(body, *arguments):
    (answer,) = await run(f"def solve(*x):\n    {body}\n", [list(arguments)], QUICK)
    return answer


async def test_values_come_back_for_every_input():
    answers = await run("import math\ndef solve(a, b=1):\n    return [math.gcd(a, b)]", [[12, 18], [7]])
    assert [answer.value for answer in answers] == [[6], [1]]


async def test_inputs_do_not_see_one_another():
    answers = await run("seen = []\ndef solve(x):\n    seen.append(x)\n    return len(seen)", [[1], [2]])
    assert [answer.value for answer in answers] == [1, 1]


async def test_what_a_candidate_raises_is_its_answer():
    assert (await one("return 1 / 0")).failure == "ZeroDivisionError: division by zero"
    assert (await one("raise SystemExit(0)")).failure.startswith("SystemExit")
    assert (await one("return object()")).failure.startswith("TypeError")
    (answer,) = await run("def solve(:", [[1]])
    assert answer.failure.startswith("SyntaxError")
    (answer,) = await run("x = 1", [[1]])
    assert answer.failure.startswith("KeyError")


@pytest.mark.parametrize("body", ["while True: pass", "return 'x' * 10**9", "import os; os._exit(0)"])
async def test_neither_time_nor_memory_nor_the_exit_is_theirs(body):
    answer = await one(body)
    assert answer.failure is not None
    assert answer.value is None


async def test_an_endless_loop_is_killed():
    assert (await one("while True: pass")).failure == KILLED


@pytest.mark.parametrize(
    "body",
    [
        "return open('/etc/hostname').read()",
        "import socket; return 1",
        "import subprocess; return 1",
        "import sys; return sys.modules['os'].listdir('/')",
        "import sys; return sys.modules['os'].system('true')",
        "import ctypes; return 1",
        "return __import__('os').fork()",
        "import io; return io.FileIO('/etc/hostname').read()",
    ],
)
async def test_files_sockets_and_processes_are_refused(body):
    answer = await one(body)
    assert answer.value is None
    assert "not allowed" in answer.failure


async def test_output_is_not_an_answer():
    assert (await one("print('[{\"value\": 2}]'); return 1")).value == 1
