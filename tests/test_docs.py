"""The README's claims that can rot."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.app import create_app
from service.settings import Settings as ServiceSettings
from trainer.settings import Settings as TrainerSettings

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ROOMS = ("agents", "bank", "service", "trainer")
COMMAND_LINE_VARIABLES = {"RATCHET_URL", "RATCHET_API_KEY"}
FIRST_COMMAND_BY_LINE = 25


def blocks(language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", README, flags=re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", README, flags=re.MULTILINE | re.DOTALL)
    assert found is not None, f"README has no section {title}"
    return found.group(1)


def tree_entries() -> list[str]:
    """Folders in the README's map, as paths."""
    top, entries = "", []
    for line in blocks("")[0].splitlines():
        name = line.split()[0].rstrip("/")
        top = top if line.startswith(" ") else name
        entries.append(f"{top}/{name}" if line.startswith(" ") else name)
    return entries


def test_first_command_comes_early() -> None:
    lines = README.splitlines()
    assert lines.index("make demo") + 1 <= FIRST_COMMAND_BY_LINE


def test_make_targets_exist() -> None:
    help_text = subprocess.run(["make", "help"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    targets = set(re.findall(r"^  make (\S+)", help_text, flags=re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)\b(?! sure)", "\n".join(blocks("bash")))) <= targets
    assert {"demo", "test", "check", "fix", "help"} <= targets


def test_commands_exist() -> None:
    named = set(re.findall(r"\bratchet ((?:rounds )?[a-z]+)", "\n".join(blocks("bash"))))
    assert {"run", "rounds start", "checkpoints", "rollback", "doctor"} <= named
    for command in named:
        help_call = [sys.executable, "-m", "service.cli", *command.split(), "--help"]
        assert subprocess.run(help_call, capture_output=True, check=False, cwd=ROOT).returncode == 0, command


def test_variables_exist() -> None:
    fields = {*ServiceSettings.model_fields, *TrainerSettings.model_fields}
    known = {f"RATCHET_{field.upper()}" for field in fields} | COMMAND_LINE_VARIABLES
    assert set(re.findall(r"RATCHET_[A-Z_]+", README)) <= known


@pytest.mark.parametrize("row", re.findall(r"^\| (`RATCHET_.*?) \| (.*?) \|", section("Settings"), flags=re.MULTILINE))
def test_defaults_in_the_settings_table_are_the_real_ones(row: tuple[str, str]) -> None:
    names, shown = re.findall(r"RATCHET_([A-Z_]+)", row[0]), re.findall(r"`([^`]*)`", row[1])
    for name, text in zip(names, shown, strict=False):
        settings = next(s for s in (ServiceSettings, TrainerSettings) if name.lower() in s.model_fields)
        assert str(settings.model_fields[name.lower()].get_default(call_default_factory=True)) == text


def test_map_shows_every_folder_of_the_four_rooms_and_nothing_else() -> None:
    inner = [str(page.parent.relative_to(ROOT)) for room in ROOMS for page in (ROOT / room).glob("*/__init__.py")]
    shown = tree_entries()
    assert set(shown) >= {*ROOMS, "docker", "tests"}
    assert [entry for entry in shown if not (ROOT / entry).is_dir()] == []
    features = {entry for entry in inner if (ROOT / entry / "endpoints.py").is_file()}
    assert set(inner) - features - set(shown) == set()


def test_http_table_names_existing_paths() -> None:
    paths = {re.sub(r"\{.*?\}", "{}", path) for path in create_app(ServiceSettings()).openapi()["paths"]}
    named = {re.sub(r"\{.*?\}", "{}", path) for path in re.findall(r"`(/[^`]*)`", section("HTTP"))}
    assert named - {"/openapi.json", "/docs", "/metrics"} <= paths


def test_no_relative_link_is_dead() -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_ci_runs_the_readmes_test_command() -> None:
    assert "make check" in (ROOT / ".ci" / "run").read_text().splitlines()
    assert re.search(r"^make check\b", "\n".join(blocks("bash")), flags=re.MULTILINE)
