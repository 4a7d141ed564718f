"""Rounds: training jobs as an operator sees them."""
