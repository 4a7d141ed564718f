"""The command line `ratchet`: what an operator, a developer or a script types.

What it does: one file per command group; each reads its options, asks the service over HTTP through
`service.client`, and prints for a person (rich) or, with `--json`, for a script. `up` is the one
command that composes a process: the HTTP service here, worker and beat as supervised children.

What it must not know: the ledger, the engine, the trainer. Everything but `up` and `doctor` speaks
HTTP only, so that a command works the same against a laptop and against a cluster.

Where to add the next command: a file beside these with a function per command, and one line in
`program.py`; shared options live in `options.py`.

Decisions: `ratchet --help` imports no web framework, no database and no torch (tested), because help
that takes seconds is not read. A failed call is one line on stderr and exit code 1; 2 is a wrong
option (typer's own), 3 is "nobody answers". `up` keeps the trainer out of its own process, so that a
kill -9 of the worker never touches a request.
"""
