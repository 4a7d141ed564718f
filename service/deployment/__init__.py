"""Deployment: which version answers, and the operator's hands on it."""
