"""How a vLLM server is started on this machine: command line and environment, CPU or CUDA. Nothing is started here.

Where the flags come from: the CPU backend's limits (fp32, blocks of 32 tokens, explicit cache, no compilation, prompts read
whole), one slot per version so that a load never evicts one that decodes, no hidden sampling defaults, a drain at SIGTERM.
Dev mode, in-place loads, resolvers and skipped name checks stay off, whatever the caller's environment says.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agents.adapter import PROJECTIONS
from agents.vllm_engine.shelf import BASE

Device = Literal["cpu", "cuda"]

RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What `--max-lora-rank` accepts."""
UNSAFE = (
    "VLLM_SERVER_DEV_MODE",
    "VLLM_SKIP_MODEL_NAME_VALIDATION",
    "VLLM_PLUGINS",
    "VLLM_LORA_RESOLVER_CACHE_DIR",
    "VLLM_LORA_RESOLVER_HF_REPO_LIST",
    "VLLM_USE_MODELSCOPE",
)
"""Variables that open doors or let an unknown name be answered by the base."""
LOOPBACK = "127.0.0.1"
PLUGIN = Path(__file__).parent / "cpu_plugin" / "ratchet_cpu_lora.py"


@dataclass(frozen=True, slots=True)
class Server:
    """One server to start."""

    python: str
    """Interpreter of an environment that has vLLM."""
    model: Path
    port: int
    device: Device = "cpu"
    versions: int = 8
    """Adapter slots; more versions than this can't answer at the same time."""
    max_rank: int = 16
    context: int | None = None
    """Longest conversation in tokens; None is the model's own."""
    parallel: int = 64
    """Requests decoded together."""
    queued: int = 1024
    """Requests that may wait; more are answered 503."""
    drain_seconds: int = 30
    cpu_cache_gib: int = 1
    """Memory for keys and values off the GPU."""
    prompt_embeds: bool = False
    """Take vectors as prompts. For an internal server of trusted callers only: malformed ones can crash it."""

    @property
    def url(self) -> str:
        """Where it will answer."""
        return f"http://{LOOPBACK}:{self.port}"

    def command(self) -> tuple[str, ...]:
        """The process to start. The module, not the script `vllm`, which needs metadata that the CPU package lacks."""
        flags = [
            ("model", self.model), ("served-model-name", BASE), ("host", LOOPBACK), ("port", self.port),
            ("max-loras", self.versions), ("max-cpu-loras", 2 * self.versions), ("max-lora-rank", _slot(self.max_rank)),
            ("max-num-seqs", self.parallel), ("max-num-queued-reqs", self.queued),
            ("shutdown-timeout", self.drain_seconds), ("generation-config", "vllm"), ("api-server-count", 1),
        ]  # fmt: skip
        if self.context is not None:
            flags.append(("max-model-len", self.context))
        if self.device == "cpu":
            flags += [("dtype", "float32"), ("block-size", 32)]
        switches = ["enable-lora", "disable-uvicorn-access-log"]
        # A prompt read in parts rewinds its seed's generator, which ends a CPU engine ("does not use offset"; 0.32).
        switches += ["enforce-eager", "no-enable-chunked-prefill"] if self.device == "cpu" else []
        switches += ["enable-prompt-embeds"] if self.prompt_embeds else []
        words = [word for name, value in flags for word in (f"--{name}", str(value))]
        targets = ("--lora-target-modules", *PROJECTIONS)
        module = ("-m", "vllm.entrypoints.openai.api_server")
        return (self.python, *module, *words, *targets, *(f"--{name}" for name in switches))

    def environment(self, outer: Mapping[str, str]) -> dict[str, str]:
        """The caller's environment, made safe."""
        kept = {name: value for name, value in outer.items() if name not in UNSAFE and not name.startswith("RATCHET_")}
        told = {
            "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
            "VLLM_NO_USAGE_STATS": "1",
            "HF_HUB_OFFLINE": "1",
        }
        if self.device == "cpu":
            told |= {
                "CUDA_VISIBLE_DEVICES": "",
                "VLLM_CPU_KVCACHE_SPACE": str(self.cpu_cache_gib),
                "VLLM_CPU_OMP_THREADS_BIND": "nobind",
                "VLLM_CPU_CI_ENV": "1",  # no warm-up
                "VLLM_PLUGINS": PLUGIN.stem,
                "PYTHONPATH": os.pathsep.join(filter(None, [str(PLUGIN.parent), outer.get("PYTHONPATH")])),
                "TORCH_COMPILE_DISABLE": "1",  # or the first request waits a minute for a C++ compiler
                "OMP_NUM_THREADS": outer.get("OMP_NUM_THREADS", str(os.cpu_count() or 1)),
            }
        return kept | told


def _slot(rank: int) -> int:
    """The smallest size of slot that holds this rank. Raises `ValueError` above the largest."""
    fitting = [size for size in RANKS if size >= rank]
    if not fitting:
        raise ValueError(f"vLLM serves ranks up to {RANKS[-1]}, not {rank}")
    return fitting[0]
