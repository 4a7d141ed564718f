"""One file per revision, oldest first by name."""
