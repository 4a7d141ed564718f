"""Which embedder finds references of the same kind? Prints the figures quoted in `bank/embedding/__init__.py`.

Run `python tests/bank/measure_embedding.py`: about a minute, no network. Writes reports/embedding.json.
The bank is the gold trajectories of all train tasks of order_desk:0, the queries are its held-out tasks (phrased as no
train task is) and its train tasks, own task excluded. "kind" is the share of the top 3 with the same kind of request.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from agents.environment import Task
from agents.worlds.order_desk.suite import OrderDeskSuite
from bank.embedding.embedder import Embedder, Vectors
from bank.embedding.hashing import HashingEmbedder
from bank.embedding.minilm import INSTRUCTION, MiniLmEmbedder
from bank.episode import Split

TOP = 3
INSTRUCTIONS = (
    INSTRUCTION,
    "",
    "Represent this sentence for searching relevant passages: ",
    "Find the procedure that solved a task like this: ",
    "customer request: ",
)


def gold_document(suite: OrderDeskSuite, task: Task) -> str:
    """What `Experience.document` is for a perfect run of the task."""
    session = suite.reset(task)
    lines = [
        f"{name}({', '.join(f'{key}={value}' for key, value in arguments.items())}) -> {session.call(name, arguments)}"
        for name, arguments in suite.gold(task)
    ]
    return "\n".join([task.text, *lines, "done"])


def agreement(documents: Vectors, bank: Sequence[Task], queries: Vectors, asked: Sequence[Task]) -> float:
    """Share of the top 3 whose kind is the query's, own task excluded."""
    kinds = np.array([task.payload["kind"] for task in bank])
    scores = queries @ documents.T
    scores[np.array([[query.id == task.id for task in bank] for query in asked])] = -np.inf
    best = np.argsort(-scores, axis=1, kind="stable")[:, :TOP]
    return float(np.mean(kinds[best] == np.array([task.payload["kind"] for task in asked])[:, None]))


def embedders() -> Iterator[tuple[str, Embedder]]:
    """What is compared, by the label it is printed under."""
    yield "hashing", HashingEmbedder()
    for instruction in INSTRUCTIONS:
        yield f"minilm {instruction!r}", MiniLmEmbedder(instruction)


def timed(embed: Callable[[Sequence[str]], Vectors], texts: Sequence[str]) -> tuple[Vectors, float]:
    """Vectors, and texts per second."""
    started = time.perf_counter()
    vectors = embed(texts)
    return vectors, len(texts) / (time.perf_counter() - started)


def measure(embedder: Embedder, suite: OrderDeskSuite) -> dict[str, float]:
    """The figures of one embedder."""
    train, held_out = suite.tasks(Split.TRAIN), suite.tasks(Split.HELD_OUT)
    embedder.embed_documents(["warm up"])
    documents, documents_per_second = timed(embedder.embed_documents, [gold_document(suite, task) for task in train])
    queries, queries_per_second = timed(embedder.embed_queries, [task.text for task in held_out])
    train_queries = embedder.embed_queries([task.text for task in train])
    return {
        "held_out_kind": agreement(documents, train, queries, held_out),
        "train_kind": agreement(documents, train, train_queries, train),
        "documents_per_second": documents_per_second,
        "queries_per_second": queries_per_second,
    }


def main() -> None:
    """Measure, print, write."""
    report = {}
    for label, embedder in embedders():
        figures = report[label] = measure(embedder, OrderDeskSuite(0))
        print(  # noqa: T201
            f"held-out {figures['held_out_kind']:.3f}  train {figures['train_kind']:.3f}  "
            f"documents/s {figures['documents_per_second']:7.0f}  queries/s {figures['queries_per_second']:7.0f}  {label}"
        )
    target = Path("reports/embedding.json")
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
