"""The ledger: everything that must survive, as SQL rows.

`Ledger` (ledger.py) is the only place that begins and commits; it hands out `Books`, one repository per table
group, all bound to the same transaction. So an episode, its experience and the audit line about them become
durable together or not at all.

tables/ says what is stored, one module per group; columns.py says how a value becomes a column and refuses what
can't be stored exactly; the repositories (episodes.py, rounds.py, ...) hold all the SQL. sqlite.py and
postgres.py are the only files that know a database: repositories use portable statements (savepoints around inserts that
may collide), and both databases let one writing transaction in at a time, so a rule that a repository checks before it
writes holds on both. Every test of the ledger runs on both.

Decision: PostgreSQL writers take one advisory lock instead of SERIALIZABLE with retries. Work that fails and is done again
would have to be free of side effects, and the refusals would differ from SQLite's; throughput comes from many requests in one
commit (`service.books`), not from many commits at once.

To add a table: a module in tables/, its line in schema.py, a revision in bank/migrations/versions, a repository,
a field of `Books`. A test compares the migrated schema with the tables and fails when one of the two was forgotten.
"""
