"""Checkpoints: the versions of the student, where they came from and what the gate found."""
