"""Revisions of the ledger's schema, run by `bank.ledger.migrate`; one file each in versions/, never edited later."""
