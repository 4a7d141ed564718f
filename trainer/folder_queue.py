"""A broker that needs no installation: kombu's filesystem transport, made safe against torn messages.

kombu's sender creates a message file before it fills it, so a reader may take an empty or half-written
one, and the JSON error would end the worker. Such a message is dropped here: the ledger is the truth,
and the next poll finds the round that it announced.
"""

from __future__ import annotations

from pathlib import Path
from queue import Empty
from typing import Any

from kombu.transport import filesystem, virtual
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_fixed

URL = "filesystem://"


class Channel(filesystem.Channel):  # type: ignore[misc]
    """One process's view of the queue folder."""

    def _get(self, queue: str) -> Any:
        try:
            return super()._get(queue)
        except ValueError:
            raise Empty from None

    @retry(retry=retry_if_exception_type(ValueError), stop=stop_after_attempt(20), wait=wait_fixed(0.05), reraise=True)
    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        super()._queue_bind(exchange, routing_key, pattern, queue)


class Transport(filesystem.Transport):  # type: ignore[misc]
    """The transport with the safe channel."""

    Channel = Channel
    global_state = virtual.BrokerState()


def transport_options(folder: Path) -> dict[str, Any]:
    """Celery's `broker_transport_options` for a queue under `folder`; makes its folders."""
    messages, control = folder / "messages", folder / "control"
    for path in (messages, control):
        path.mkdir(parents=True, exist_ok=True)
    return {
        "data_folder_in": str(messages),
        "data_folder_out": str(messages),
        "control_folder": str(control),
        "polling_interval": 0.2,
    }
