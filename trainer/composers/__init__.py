"""Composers that ship with a base model, as safetensors; the metadata's `key` says what base and shape each fits.

A round takes φ from the round before it. The first round has none: it starts from a shipped composer, when there is one
for exactly its base, prompts and shape, and from an untrained one otherwise; the cold start on its own bank follows either way.
"""
