"""OpenApiTools: operations of an HTTP API, from its OpenAPI 3 description, as tools.

Parameters and the properties of a JSON body become arguments of one object. The server's URL comes from the operator's file,
never from the description; requests go through `fetch`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx2

from agents.tools.check import ToolError
from agents.tools.fetch import guarded_client
from agents.tools.functions import as_text
from agents.tools.spec import ToolSpec

VERBS = ("get", "post", "put", "patch", "delete")
JSON = "application/json"
FIRST_REFUSAL = 300
"""Redirects are not followed: they would carry the operator's headers elsewhere."""
DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the description."""

    spec: ToolSpec
    verb: str
    path: str
    places: Mapping[str, str]
    """Argument to where it goes: path, query, header or body."""


class OpenApiTools:
    """A toolset (`agents.tools.toolset.Toolset`) over HTTP."""

    def __init__(self, operations: Sequence[Operation], client: httpx2.AsyncClient) -> None:
        self._operations = {operation.spec.name: operation for operation in operations}
        self._client = client

    @classmethod
    def of(
        cls, document: Mapping[str, Any], url: str, allow: Sequence[str], headers: Mapping[str, str], *, private: bool
    ) -> OpenApiTools:
        """The allowed operations, served at `url`. Raises ValueError when one does not exist."""
        found = {operation.spec.name: operation for operation in operations_of(document)}
        missing = [name for name in allow if name not in found]
        if missing:
            raise ValueError(f"no operation {', '.join(missing)}; operations: {', '.join(sorted(found))}")
        client = guarded_client(private=private, base_url=url, headers=dict(headers), follow_redirects=False)
        return cls([found[name] for name in allow], client)

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The allowed operations."""
        return tuple(operation.spec for operation in self._operations.values())

    async def call(self, name: str, arguments: Mapping[str, Any]) -> str:
        """Body of the response. Raises `ToolError` for a status from 300 on, and when nobody answers."""
        operation = self._operations[name]
        try:
            response = await self._client.request(operation.verb.upper(), **_request(operation, arguments))
        except httpx2.HTTPError as error:
            raise ToolError(f"{name}: {error or type(error).__name__}") from error
        text = as_text(response.text)
        if response.status_code >= FIRST_REFUSAL:
            raise ToolError(f"{name} answered {response.status_code}: {text}")
        return text

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def operations_of(document: Mapping[str, Any]) -> Iterator[Operation]:
    """Every operation with an operationId. Raises ValueError for a description that can't be read."""
    for path, item in document.get("paths", {}).items():
        if not path.startswith("/") or path.startswith("//"):
            raise ValueError(f"{path[:100]!r} is no path of this API")
        for verb in VERBS:
            operation = item.get(verb)
            if operation is not None and "operationId" in operation:
                yield _operation(document, path, verb, {**operation, "shared": item.get("parameters", [])})


def _operation(document: Mapping[str, Any], path: str, verb: str, operation: Mapping[str, Any]) -> Operation:
    properties, required, places = dict[str, Any](), list[str](), dict[str, str]()
    for parameter in (*operation["shared"], *operation.get("parameters", ())):
        told = inlined(parameter, document)
        if told["in"] == "cookie":
            continue
        properties[told["name"]] = {**told.get("schema", {}), "description": told.get("description", "")}
        places[told["name"]] = told["in"]
        required += [told["name"]] if told.get("required") else []
    body = inlined(operation.get("requestBody", {}), document).get("content", {}).get(JSON, {}).get("schema", {})
    for name, schema in body.get("properties", {}).items():
        if name not in places:
            properties[name], places[name] = schema, "body"
            required += [name] if name in body.get("required", ()) else []
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    description = operation.get("description") or operation.get("summary") or ""
    return Operation(ToolSpec(operation["operationId"], description, schema), verb, path, places)


def inlined(value: Any, document: Mapping[str, Any], depth: int = 0) -> Any:
    """The value with every local `$ref` replaced by what it names; a cycle ends in "anything"."""
    if depth > DEEPEST:
        return {}
    if isinstance(value, list):
        return [inlined(item, document, depth + 1) for item in value]
    if not isinstance(value, dict):
        return value
    if "$ref" in value:
        return inlined(_named(str(value["$ref"]), document), document, depth + 8)
    return {key: inlined(item, document, depth + 1) for key, item in value.items()}


def _named(reference: str, document: Mapping[str, Any]) -> Any:
    if not reference.startswith("#/"):
        raise ValueError(f"{reference}: only references into the description itself are followed")
    found: Any = document
    for part in reference[2:].split("/"):
        try:
            found = found[part.replace("~1", "/").replace("~0", "~")]
        except (KeyError, TypeError):
            raise ValueError(f"{reference} names nothing") from None
    return found


def _request(operation: Operation, arguments: Mapping[str, Any]) -> dict[str, Any]:
    by_place: dict[str, dict[str, Any]] = {"path": {}, "query": {}, "header": {}, "body": {}}
    for name, value in arguments.items():
        by_place[operation.places[name]][name] = value
    path = operation.path
    for name, value in by_place["path"].items():
        path = path.replace("{" + name + "}", _segment(name, value))
    headers = {name: _line(name, value) for name, value in by_place["header"].items()}
    request: dict[str, Any] = {
        "url": path,
        "params": {name: _plain(value) for name, value in by_place["query"].items()},
    }
    return {**request, "headers": headers, **({"json": by_place["body"]} if by_place["body"] else {})}


def _segment(name: str, value: Any) -> str:
    """One path segment: a value can't climb to another operation."""
    text = _plain(value)
    if text in ("", ".", ".."):
        raise ToolError(f"{name}: {text!r} can't be part of a path")
    return quote(text, safe="")


def _line(name: str, value: Any) -> str:
    text = _plain(value)
    if not text.isprintable() or not text.isascii():
        raise ToolError(f"{name}: not a header's value")
    return text


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
