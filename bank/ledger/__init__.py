"""The ledger: everything that must survive, as SQL rows.

`Ledger` (ledger.py) is the only place that begins and commits; it hands out `Books`, one repository per table
group, all bound to the same transaction. So an episode, its experience and the audit line about them become
durable together or not at all.

tables/ says what is stored, one module per group; columns.py says how a value becomes a column and refuses what
can't be stored exactly; the repositories (episodes.py, rounds.py, ...) hold all the SQL. sqlite.py is the only file
that knows SQLite: repositories use portable statements (`FOR UPDATE SKIP LOCKED` where a claim needs it, savepoints
around inserts that may collide), so another database is a sibling of sqlite.py and not a second set of repositories.

To add a table: a module in tables/, its line in schema.py, a revision in bank/migrations/versions, a repository,
a field of `Books`. A test compares the migrated schema with the tables and fails when one of the two was forgotten.
"""
