"""logs: one line per event on stderr, for people on a terminal and as JSON elsewhere."""

from __future__ import annotations

import logging
import sys

import structlog


def log_to_stderr() -> None:
    """For the whole process; Celery's own lines from warnings on."""
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s")
    shown: structlog.typing.Processor = structlog.processors.JSONRenderer()
    if sys.stderr.isatty():
        shown = structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            shown,
        ],
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
