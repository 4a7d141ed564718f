"""run_python: code that the model writes, as a tool; it runs in the sandbox's process and nowhere else."""

from __future__ import annotations

import json

from agents.tools.check import ToolError
from agents.worlds.code.sandbox import MODULES, run


async def run_python(code: str) -> str:
    """Run Python code that defines `solve()`; the answer is what it returns, as JSON. No files, no network."""
    (answer,) = await run(code, [[]])
    if answer.failure is not None:
        raise ToolError(f"{answer.failure} (allowed imports: {', '.join(MODULES)})")
    return json.dumps(answer.value, ensure_ascii=False)
