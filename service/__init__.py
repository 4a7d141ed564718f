"""The HTTP gateway and operator surface.

What it does: authenticates, admits runs, lets `agents` play them on the engine that holds the live version, records every
episode before it is acknowledged, takes feedback, starts rounds, and moves the deployment pointer. `app.py` is the
composition root: it alone constructs things; everything else receives them. Features (`runs`, `feedback`, `rounds`,
`checkpoints`, `deployment`, `bank`, `audit`, `keys`, `health`) have the same rooms: `endpoints.py` (HTTP), `schemas.py`
(what goes over the wire) and, where there are rules, `service.py`. `screen`, `cli` and `client.py` are the terminal's side.

What it must not know: torch, transformers, the trainer. It meets the trainer at data only: a job name (`jobs.py`), an
adapter folder with its manifest, and ledger rows. A test imports `service.app` in a fresh interpreter and looks.

Decisions.
- The alias "the student" exists only in `fleet.py`: one pointer, read once per run, handed out as a lease on
  (replica, version). An engine is never asked for anything but an explicit version name.
- Durable before acknowledged: an episode and its experience row are one transaction, committed before the 201.
- Middleware is plain ASGI. Starlette's BaseHTTPMiddleware hides a client's disconnect from handlers that do not stream.
- Bodies are read strictly (`body.py`): a NaN, a duplicate key or a NUL is refused at the door, so nothing inside has to
  think about them; every error has the shape and a stable code of `errors.py`.
- The ledger is synchronous; its calls run in threads (`books.py`), SQLite's writers one at a time.
- A failed probe never moves the pointer; a version whose load can't be proven answers nobody.

To add a feature: a folder with the rooms above, its router in `app.py`, its rules' object in `state.py`.
"""
