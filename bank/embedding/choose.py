"""open_embedder: from a name in the settings to an embedder."""

from __future__ import annotations

from bank.embedding.embedder import Embedder
from bank.embedding.hashing import HashingEmbedder


def open_embedder(spec: str, api_key: str | None = None) -> Embedder:
    """The embedder of `spec`: "minilm", "hashing" or "openai:<model>@<base url>" (which takes the key).

    Only the chosen one is imported. Raises ValueError for anything else.
    """
    kind, _, rest = spec.partition(":")
    if spec == "hashing":
        return HashingEmbedder()
    if spec == "minilm":
        from bank.embedding.minilm import MiniLmEmbedder  # noqa: PLC0415  # brings torch

        return MiniLmEmbedder()
    model, _, base_url = rest.partition("@")
    if kind == "openai" and model and base_url:
        from bank.embedding.openai import OpenAiEmbedder  # noqa: PLC0415

        return OpenAiEmbedder(model, base_url, api_key)
    raise ValueError(f"unknown embedder {spec!r}: use minilm, hashing or openai:<model>@<base url>")
