"""What the style guide asks of the four rooms, measured on their source."""

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("bank", "agents", "service", "trainer")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
HEAVY = ("torch", "transformers", "peft", "sentence_transformers", "trainer")
LONGEST_FUNCTION, MEDIAN_FUNCTION = 50, 10
LONGEST_FILE = 300
MOST_PARAMETERS = 7
TORCH_HOOKS = {"forward", "backward"}
"""Overridden methods; their class says what they compute."""
DUMPING_GROUNDS = {"utils", "util", "common", "helpers", "helper", "misc", "base", "core", "shared"}
HEAVY_BY_CHOICE = ("agents.transformers_engine", "bank.embedding.minilm")
"""Loaded only when they are chosen."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def label(path: Path, node: Function | ast.ClassDef) -> str:
    return f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def functions() -> Iterator[tuple[Path, Function]]:
    for path in SOURCES:
        for node in ast.walk(tree_of(path)):
            if isinstance(node, Function):
                yield path, node


def lines_of(node: Function) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def light_modules(room: str) -> list[str]:
    names = [module_name(path) for path in SOURCES if path.is_relative_to(ROOT / room)]
    runs_on_import = ("__main__", "migrations.env")
    return [name for name in names if not name.startswith(HEAVY_BY_CHOICE) and not name.endswith(runs_on_import)]


@pytest.mark.parametrize("room", ["bank", "agents", "service"])
def test_serving_path_is_torch_free_at_run_time(room: str) -> None:
    # The linter can't see through third-party packages; a fresh interpreter can.
    program = (
        "import importlib, sys\n"
        f"for name in {light_modules(room)!r}: importlib.import_module(name)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"


def test_help_needs_no_framework_and_no_database() -> None:
    program = "import sys, service.cli.program\nprint([n for n in {!r} if n in sys.modules])"
    unwanted = (*HEAVY, "fastapi", "sqlalchemy", "alembic", "celery", "numpy", "qdrant_client")
    done = subprocess.run(
        [sys.executable, "-c", program.format(unwanted)], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == "[]"


def test_functions_are_short() -> None:
    long = [f"{label(path, node)} {lines_of(node)}" for path, node in functions() if lines_of(node) > LONGEST_FUNCTION]
    assert long == []
    assert statistics.median(lines_of(node) for _, node in functions()) <= MEDIAN_FUNCTION


def test_files_are_short() -> None:
    counts = {path: path.read_text(encoding="utf-8").count("\n") for path in SOURCES}
    assert {str(path.relative_to(ROOT)): count for path, count in counts.items() if count > LONGEST_FILE} == {}


def test_functions_take_few_parameters() -> None:
    def parameters(node: Function) -> list[str]:
        arguments = node.args
        named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
        return [argument.arg for argument in named if argument.arg not in {"self", "cls"}]

    assert [label(path, node) for path, node in functions() if len(parameters(node)) > MOST_PARAMETERS] == []


def test_no_module_invites_dumping() -> None:
    assert [module_name(path) for path in SOURCES if set(module_name(path).split(".")) & DUMPING_GROUNDS] == []


def test_everything_public_is_documented() -> None:
    bare = [module_name(path) for path in SOURCES if path.read_text().strip() and not ast.get_docstring(tree_of(path))]
    for path in SOURCES:
        bare += [label(path, node) for node in public_definitions(tree_of(path)) if not ast.get_docstring(node)]
    assert bare == []


def public_definitions(tree: ast.Module) -> Iterator[Function | ast.ClassDef]:
    """Public functions, classes and methods; what stands inside a function or a private class is nobody's interface."""
    stack: list[ast.Module | ast.ClassDef] = [tree]
    while stack:
        for node in stack.pop().body:
            if not isinstance(node, Function | ast.ClassDef) or node.name.startswith("_") or node.name in TORCH_HOOKS:
                continue
            yield node
            if isinstance(node, ast.ClassDef):
                stack.append(node)


@pytest.mark.parametrize("room", ROOMS)
def test_every_room_has_its_architecture_page_and_no_imports_in_it(room: str) -> None:
    tree = tree_of(ROOT / room / "__init__.py")
    page = ast.get_docstring(tree)
    assert page is not None
    assert 10 <= page.count("\n") + 1 <= 40
    assert len(tree.body) == 1


def test_docker_folder_is_no_package() -> None:
    assert not list((ROOT / "docker").rglob("__init__.py"))
