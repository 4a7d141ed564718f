"""A workshop on a random tiny base, with a bank of solved train tasks: rounds run for real, learning nothing."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from transformers import PreTrainedTokenizerBase, Qwen3ForCausalLM

from agents.engine import GenerateRequest, Generation
from agents.environment import Task
from agents.loop import Run, run_episode
from agents.model_folder import SHIPPED
from agents.transformers_engine.prompt import render
from agents.worlds.order_desk.suite import OrderDeskSuite
from bank.embedding.hashing import HashingEmbedder
from bank.episode import Split
from bank.ids import new_id
from bank.index.memory import MemoryIndex
from bank.ledger.ledger import Ledger
from bank.message import Message, Role, ToolCall
from bank.remember import remember
from bank.round import Round, RoundStatus
from trainer.progress import Reporter
from trainer.settings import Settings
from trainer.tiny.pretrain import architecture
from trainer.workshop import Workshop

SMALL_ROUND: dict[str, Any] = {
    "steps": 3,
    "tasks_per_step": 4,
    "min_experiences": 6,
    "sampling": {"max_tokens": 8},
    "limits": {"steps": 2},
    "lopd": {
        "composer": {"references": 2, "queries": 3, "depth": 2, "rank": 2},
        "student": {"rank": 4, "alpha": 8.0, "learning_rate": 1e-2},
    },
    "cold_start": {"steps": 2, "batch": 4},
    "gate": {"tasks": 6, "sampling": {"max_tokens": 8}},
}


class GoldEngine:
    """Answers every turn of a train task with the suite's own solution, in the tokens of the real template."""

    def __init__(self, suite: OrderDeskSuite, task: Task, tokenizer: PreTrainedTokenizerBase) -> None:
        self._calls = suite.gold(task)
        self._tokenizer = tokenizer

    async def generate(self, request: GenerateRequest) -> Generation:
        turn = sum(message.role is Role.ASSISTANT for message in request.messages)
        reply = self._reply(turn)
        prompt = render(self._tokenizer, request.messages, request.tools)
        after = render(self._tokenizer, [*request.messages, reply], request.tools)
        end = len(after) - after[::-1].index(self._tokenizer.eos_token_id)
        sampled = after[len(prompt) : end]
        return Generation("base", prompt, sampled, (-0.1,) * len(sampled), reply, "stop")

    def _reply(self, turn: int) -> Message:
        if turn >= len(self._calls):
            return Message(Role.ASSISTANT, "done")
        name, arguments = self._calls[turn]
        return Message(Role.ASSISTANT, "", (ToolCall(f"call_{turn}", name, json.dumps(arguments)),))


@pytest.fixture(scope="session")
def base_folder(tmp_path_factory: pytest.TempPathFactory, tokenizer: PreTrainedTokenizerBase) -> Path:
    """A random two-layer base on disk."""
    folder = tmp_path_factory.mktemp("models") / "random"
    torch.manual_seed(0)
    config = architecture(len(tokenizer))
    config.num_hidden_layers = 2
    config.layer_types = config.layer_types[:2]
    config.hidden_size, config.intermediate_size = 64, 96
    config.eos_token_id = tokenizer.eos_token_id
    Qwen3ForCausalLM(config).save_pretrained(folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(SHIPPED / "tiny" / name, folder / name)
    return folder


@pytest.fixture
def settings(tmp_path: Path, base_folder: Path) -> Settings:
    return Settings(
        data=tmp_path / "data", model=str(base_folder), embedder="hashing", round=SMALL_ROUND, lease_seconds=5.0
    )


@pytest.fixture
def fill_bank(tokenizer: PreTrainedTokenizerBase) -> Callable[..., Any]:
    """Solve train tasks and remember them, as the service would."""

    def fill(ledger: Ledger, tasks: int = 10) -> None:
        suite = OrderDeskSuite(0)
        for task in suite.tasks(Split.TRAIN)[:tasks]:
            run = Run(new_id("ep"), task, "base", "d" * 64)
            episode = asyncio.run(run_episode(GoldEngine(suite, task, tokenizer), suite.reset(task), run))
            with ledger.write() as books:
                books.episodes.add(episode)
                assert remember(books, episode, episode.reward, 1.0, datetime.now(UTC)) is not None

    return fill


@pytest.fixture
def open_shop(settings: Settings, base_folder: Path) -> Iterator[Callable[..., Workshop]]:
    """A workshop on the test's data folder; opened again it finds what the last one left, if it is given the index."""
    ledgers: list[Ledger] = []

    def build(
        stopping: Callable[[], bool] = lambda: False, index: MemoryIndex | None = None, **changes: Any
    ) -> Workshop:
        chosen = settings.model_copy(update=changes)
        chosen.data.mkdir(parents=True, exist_ok=True)
        ledgers.append(Ledger.open(chosen.ledger))
        embedder = HashingEmbedder()
        shelf = index or MemoryIndex(embedder.dimension)
        return Workshop(
            settings=chosen,
            ledger=ledgers[-1],
            open_index=lambda: nullcontext(shelf),
            embedder=embedder,
            environment=OrderDeskSuite(0),
            model=base_folder,
            reporter=Reporter(Console(file=StringIO())),
            stopping=stopping,
        )

    yield build
    for ledger in ledgers:
        ledger.close()


@pytest.fixture
def queue_round() -> Callable[..., Round]:
    def queue(ledger: Ledger, config: dict[str, Any] | None = None) -> Round:
        name = new_id("rd")
        row = Round(name, f"manual-{name}", RoundStatus.QUEUED, datetime.now(UTC), config or {})
        with ledger.write() as books:
            return books.rounds.create(row)

    return queue


@pytest.fixture
def look() -> Callable[..., Any]:
    """The stored round, its steps and its candidate."""

    def read(ledger: Ledger, round_id: str) -> tuple[Round, Sequence[Any], Any]:
        with ledger.read() as books:
            row = books.rounds.get(round_id)
            return row, books.rounds.steps(round_id), books.checkpoints.of_round(round_id)

    return read
