"""What the ledger stores, one module per group. No behaviour here: the repositories hold the statements."""
