"""The experience index: vectors of the bank, rebuilt from the ledger whenever they are lost.

`ExperienceIndex` (index.py) is the protocol, `MemoryIndex` (memory.py) the choice of tests, `QdrantIndex` (qdrant.py)
the real one, on disk in this process or behind a URL. An index holds what `bank.relay` puts there and nothing else:
it is a cache of the ledger, so it may be thrown away (`ratchet bank rebuild`).

A server is asked to prove itself before anything trusts it (self_test.py). Every request is by explicit id or a listing of a page, so
strict mode has nothing to refuse; the payload fields that somebody may filter by are indexed all the same.

Who opens it: the worker, and only the worker. Qdrant's local mode allows one process, and the serving path never
retrieves. Two workers need a Qdrant server. A training round does not query the index either: it takes a frozen
`bank.snapshot.Snapshot`, because local mode needs about 80 ms for a query that one matrix product answers in none.
"""
