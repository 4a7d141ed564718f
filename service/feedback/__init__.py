"""Feedback: verdicts on runs, durable before they are acknowledged."""
