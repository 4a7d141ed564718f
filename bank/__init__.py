"""The bank: what the agent has lived through, and nothing about how it lives or learns.

Domain types (message.py, episode.py, experience.py, feedback.py, round.py, checkpoint.py, deployment.py, ...) are
frozen and know nobody. Around them:

- ledger/     the truth, as SQL rows; `Ledger` begins and commits, its repositories hold the statements
- migrations/ how the schema got where it is
- remember.py the rule that turns a verified success into an experience, in the transaction that recorded it
- relay.py    carries new and withdrawn experiences from the ledger (the outbox) to the index; killable anywhere
- embedding/  texts to unit vectors; index/ the vectors on Qdrant, a cache that is rebuilt from the ledger
- snapshot.py the bank as one training round sees it: frozen, own task excluded, held-out tasks refused

It must not know: HTTP, engines, tools, rounds' algorithms, torch (one file excepted, embedding/minilm.py, imported
when it is chosen). It imports none of the other rooms.

Decisions. The ledger lives here because service and trainer both need it and it must know nobody. Held-out tasks are
refused twice, where an experience is written and where a snapshot is frozen, since a leak would make every gate's
verdict worthless. Token ids and log-probabilities are stored packed, bit for bit, because training sees what was
sampled. The index is never asked during a round or on the serving path, so Qdrant's local mode, which allows a single
process, is enough for one machine.

To add a kind of record: a frozen type here, then a table group as `bank.ledger` describes.
"""
