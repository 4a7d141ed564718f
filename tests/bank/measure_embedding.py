"""Which embedder finds references that help? Prints the figures quoted in `bank/embedding/__init__.py`.

Run `python tests/bank/measure_embedding.py`: about two minutes, no network. Writes reports/embedding.json.
The bank holds 112 gold trajectories of order_desk:0's train tasks, drawn as a weak base solves them: a procedure of n calls
with weight 4^-n. Queries are the held-out tasks (phrased as no train task is) and the train tasks, own task excluded.
"kind" is the share of the top 3 with the same kind of request; "rule" the share of queries whose top 3 show the very rule
that the task needs (kind and status).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from agents.environment import Task
from agents.worlds.order_desk.suite import OrderDeskSuite
from bank.embedding.embedder import Embedder, Vectors
from bank.embedding.hashing import HashingEmbedder
from bank.embedding.minilm import MiniLmEmbedder
from bank.episode import Split

TOP = 3
BANK = 112
INSTRUCTION = "Given a task, retrieve solved tasks that need the same procedure: "


class Instructed(MiniLmEmbedder):
    """As LOPD embeds (app. A.3): the document is task and trace, the query stands behind an instruction."""

    reads_trace = True

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Vectors of queries."""
        return self.embed_documents([INSTRUCTION + text for text in texts])


class Traced(MiniLmEmbedder):
    """Task and trace in the document, no instruction."""

    reads_trace = True


@dataclass(frozen=True)
class Bank:
    """Tasks that were solved, and what the embedder reads of them."""

    tasks: tuple[Task, ...]
    documents: tuple[str, ...]


def solved_bank(suite: OrderDeskSuite, traced: bool) -> Bank:
    """The bank as a weak base fills it."""
    train = suite.tasks(Split.TRAIN)
    weights = np.array([0.25 ** len(suite.gold(task)) for task in train])
    chosen = np.random.default_rng(0).choice(len(train), BANK, replace=False, p=weights / weights.sum())
    tasks = tuple(train[index] for index in chosen)
    return Bank(tasks, tuple(gold_document(suite, task) if traced else task.text for task in tasks))


def gold_document(suite: OrderDeskSuite, task: Task) -> str:
    """What `Experience.document` is for a perfect run of the task."""
    session = suite.reset(task)
    lines = [
        f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())}) -> {session.call(name, arguments)}"
        for name, arguments in suite.gold(task)
    ]
    return "\n".join([task.text, *lines, "done"])


def cell(task: Task) -> tuple[str, str]:
    """Kind and status: what decides the procedure."""
    orders = task.payload["init_config"]["orders"]
    return task.payload["kind"], orders[task.payload["order"]]["status"]


def found(documents: Vectors, bank: Sequence[Task], queries: Vectors, asked: Sequence[Task]) -> tuple[float, float]:
    """(kind, rule) of the top 3, own task excluded."""
    scores = queries @ documents.T
    scores[np.array([[query.id == task.id for task in bank] for query in asked])] = -np.inf
    best = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
    pairs = [(cell(query), [cell(bank[index]) for index in row]) for query, row in zip(asked, best, strict=True)]
    kind = np.mean([[other[0] == own[0] for other in others] for own, others in pairs])
    return float(kind), float(np.mean([own in others for own, others in pairs]))


def embedders() -> Iterator[tuple[str, Embedder]]:
    """What is compared, by the label it is printed under."""
    yield "hashing", HashingEmbedder()
    yield "minilm, task", MiniLmEmbedder()
    yield "minilm, task and trace", Traced()
    yield "minilm, task and trace, instruction", Instructed()


def timed(embed: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> tuple[Vectors, float]:
    """Vectors, and texts per second."""
    started = time.perf_counter()
    vectors = embed(texts)
    return vectors, len(texts) / (time.perf_counter() - started)


def measure(embedder: Embedder, suite: OrderDeskSuite) -> dict[str, float]:
    """The figures of one embedder."""
    bank = solved_bank(suite, embedder.reads_trace)
    train, held_out = suite.tasks(Split.TRAIN), suite.tasks(Split.HELD_OUT)
    embedder.embed_documents(["warm up"])
    documents, per_second = timed(embedder.embed_documents, bank.documents)
    train_queries, held_out_queries = (
        embedder.embed_queries([task.text for task in each]) for each in (train, held_out)
    )
    held_out_kind, held_out_rule = found(documents, bank.tasks, held_out_queries, held_out)
    train_kind, train_rule = found(documents, bank.tasks, train_queries, train)
    return {
        "held_out_kind": held_out_kind,
        "train_kind": train_kind,
        "held_out_rule": held_out_rule,
        "train_rule": train_rule,
        "documents_per_second": per_second,
    }


def main() -> None:
    """Measure, print, write."""
    report = {}
    for label, embedder in embedders():
        figures = report[label] = measure(embedder, OrderDeskSuite(0))
        print("  ".join(f"{name} {value:.2f}" for name, value in figures.items()), label)  # noqa: T201
    target = Path("reports/embedding.json")
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
