"""Liveness, readiness and metrics; open to probes without a key."""
