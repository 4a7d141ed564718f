"""Logs of the service process: one JSON object a line, on stderr."""

from __future__ import annotations

import sys

import structlog


def configure_logs() -> None:
    """For the whole process. structlog's own default draws tracebacks with all locals: seconds of work, and secrets."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
