"""Runs: the agent answers, and what it did is on record before anybody hears of it."""
