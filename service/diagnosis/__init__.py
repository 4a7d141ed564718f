"""Diagnosis: checks that a person can act on, one line each.

What it does: `local` looks at this machine (Python, packages, data folder, ledger, model, queue,
disk), `remote` at the running service over HTTP. Every check returns a `Finding`; none raises for
something that is merely wrong, and none changes anything it looks at.

What it must not know: the trainer and torch, which it only looks for by name.

Where to add the next check: a function in `local.py` or `remote.py` and its place in that file's list.
Decision: a check that fails says what to do next in the same line, since its reader is in a hurry.
"""
