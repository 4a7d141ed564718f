"""RatchetClient: the HTTP surface as Python calls, for the command line and the demo."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import httpx

Body = dict[str, Any]
"""A decoded JSON object of the API; `service/app.py` publishes its schema as OpenAPI."""

TIMEOUT_SECONDS = 300.0
"""A run may take its whole time limit before the answer comes."""
CONNECT_SECONDS = 5.0
OPERATOR_KEY = "operator.key"
"""File in an embedded service's data folder."""


class Unreachable(Exception):
    """Nobody answers at the URL, or what answers is not this API."""


class ApiError(Exception):
    """The service answered with an error; `str()` is one line for a person."""

    def __init__(self, status: int, code: str, message: str, request_id: str | None = None) -> None:
        tail = f" [request {request_id}]" if request_id else ""
        super().__init__(f"{message} ({status} {code}){tail}")
        self.status = status
        self.code = code


class RatchetClient:
    """One connection to a service. Every call raises `ApiError` or `Unreachable`."""

    def __init__(self, url: str, key: str | None, transport: httpx.BaseTransport | None = None) -> None:
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS)
        self.url = url.rstrip("/")
        self._http = httpx.Client(base_url=self.url, headers=headers, timeout=timeout, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the connection."""
        self._http.close()

    def get(self, path: str, **query: Any) -> Body:
        """One GET; None values are left out of the query."""
        return self._call("GET", path, params={key: value for key, value in query.items() if value is not None})

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Body:
        """One POST with a JSON body."""
        return self._call("POST", path, json=dict(body or {}))

    def delete(self, path: str) -> Body:
        """One DELETE."""
        return self._call("DELETE", path)

    def ready(self) -> bool:
        """Whether the service says that its live version can answer; False when nobody answers."""
        try:
            self.get("/readyz")
        except (ApiError, Unreachable):
            return False
        return True

    def stream_run(self, body: Mapping[str, Any]) -> Iterator[tuple[str, Body]]:
        """Server-sent events of one run: (`run` | `step` | `done` | `error`, data)."""
        try:
            with self._http.stream("POST", "/v1/agent/runs", json={**body, "stream": True}) as response:
                if response.is_error:
                    response.read()
                _checked(response)
                yield from read_events(response.iter_lines())
        except httpx.TransportError as error:
            raise Unreachable(f"{self.url}: {error}") from error

    def _call(self, method: str, path: str, **options: Any) -> Body:
        try:
            response = self._http.request(method, path, **options)
        except httpx.TransportError as error:
            raise Unreachable(f"nothing answers at {self.url} ({error}); is `ratchet up` running there?") from error
        return _decoded(_checked(response))


def operator_key(data: Path) -> str | None:
    """The key that an embedded service left in its data folder; None where there is none."""
    path = data / OPERATOR_KEY
    return path.read_text(encoding="utf-8").strip() if path.is_file() else None


def read_events(lines: Iterable[str]) -> Iterator[tuple[str, Body]]:
    """Parse a server-sent event stream whose data fields are JSON; comments and other fields are skipped."""
    name, data = "message", list[str]()
    for line in lines:
        field, _, value = line.partition(":")
        if field == "event":
            name = value.strip()
        elif field == "data":
            data.append(value.removeprefix(" "))
        elif not line and data:
            yield name, json.loads("\n".join(data))
            name, data = "message", []


def _checked(response: httpx.Response) -> httpx.Response:
    if not response.is_error:
        return response
    try:
        body = response.json()
        error = body["error"]
        raise ApiError(response.status_code, error["code"], error["message"], body.get("request_id"))
    except (ValueError, KeyError, TypeError):
        raise ApiError(response.status_code, "unreadable", response.reason_phrase or "error") from None


def _decoded(response: httpx.Response) -> Body:
    try:
        body = response.json()
    except ValueError:
        raise Unreachable(f"{response.url} does not answer in JSON: is that a Ratchet service?") from None
    return body if isinstance(body, dict) else {"value": body}
