"""The serving path is torch-free at run time, whatever third-party packages import behind our back."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("torch", "transformers", "peft", "trainer", "sentence_transformers", "vllm", "matplotlib", "scipy")

STARTED = f"""
import asyncio, pathlib, sys, tempfile
from service.app import create_app
from service.settings import Settings
settings = Settings(data=pathlib.Path(tempfile.mkdtemp()), engine="scripted")
app = create_app(settings)
async def start():
    async with app.router.lifespan_context(app):
        pass
asyncio.run(start())
print(sorted(set({HEAVY!r}) & set(sys.modules)))
"""


def test_started_service_has_imported_nothing_heavy():
    done = subprocess.run([sys.executable, "-c", STARTED], capture_output=True, text=True, check=False)

    assert done.stdout.splitlines()[-1:] == ["[]"], done.stderr
