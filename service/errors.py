"""Errors as callers see them: one shape, stable codes, one place that renders them.

`{"error": {"code", "message", "detail"}, "request_id"}`. Domain packages raise their own errors without HTTP in them;
this file gives those a status. Codes are part of the API: they may be added to, never renamed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from sqlalchemy.exc import OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from bank.ledger import errors as ledger_errors

log = structlog.get_logger(__name__)

LONGEST_FIELD = 100
MOST_PROBLEMS = 10
RETRY_AFTER = {"Retry-After": "1"}

HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}
LEDGER_CODES: Mapping[type[ledger_errors.LedgerError], tuple[int, str]] = {
    ledger_errors.NotFound: (404, "not_found"),
    ledger_errors.IdempotencyConflict: (409, "idempotency_conflict"),
    ledger_errors.StaleGeneration: (409, "stale_generation"),
    ledger_errors.SlotTaken: (409, "slot_taken"),
    ledger_errors.NotPromotable: (409, "checkpoint_rejected"),
    ledger_errors.InvalidRecord: (422, "invalid_record"),
}


class ServiceError(HTTPException):
    """An answer that is an error. FastAPI passes HTTPException through its body parser, hence the parent."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        detail: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.code = code
        self.message = message
        self.facts = detail


class ErrorDetail(BaseModel):
    """What went wrong."""

    code: str
    """Stable, for programs."""
    message: str
    """For people."""
    detail: dict[str, Any] | None = None


class ErrorBody(BaseModel):
    """The body of every answer that is not 2xx."""

    error: ErrorDetail
    request_id: str


ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"model": ErrorBody, "description": "Refused; nothing was stored"},
    "5XX": {"model": ErrorBody, "description": "Not now"},
}
"""For `responses=` of every router."""


def refusal(error: ServiceError, request_id: str) -> Response:
    """The error as a response."""
    body = {
        "error": {"code": error.code, "message": error.message, "detail": error.facts},
        "request_id": request_id,
    }
    content = json.dumps(body, allow_nan=False, separators=(",", ":")).encode()
    return Response(content, error.status_code, error.headers, "application/json")


def install(app: FastAPI) -> None:
    """Register the handlers."""
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    app.add_exception_handler(ledger_errors.LedgerError, _on_ledger)
    app.add_exception_handler(OperationalError, _on_ledger_away)
    app.add_exception_handler(PoolTimeout, _on_ledger_away)
    app.add_exception_handler(Exception, _on_bug)


async def _on_http(request: Request, error: Exception) -> Response:
    return refusal(_as_service_error(error), _request_id(request))


def _as_service_error(error: Exception) -> ServiceError:
    if isinstance(error, ServiceError):
        return error
    if not isinstance(error, HTTPException):
        raise error
    code = HTTP_CODES.get(error.status_code, "bad_request")
    return ServiceError(error.status_code, code, str(error.detail), headers=error.headers)


async def _on_invalid(request: Request, error: Exception) -> Response:
    problems = _problems(error.errors()) if isinstance(error, RequestValidationError) else []
    first = f"{problems[0]['field']}: {problems[0]['problem']}" if problems else "the request is not valid"
    refused = ServiceError(422, "invalid_request", first, detail={"errors": problems})
    return refusal(refused, _request_id(request))


def _problems(errors: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Where and what, never the refused value itself: it may be unprintable in JSON, huge, or secret."""
    return [
        {"field": _field(error["loc"]), "problem": str(error["msg"]).removeprefix("Value error, ")}
        for error in errors[:MOST_PROBLEMS]
    ]


def _field(location: Sequence[Any]) -> str:
    name = ".".join(str(part) for part in location if part != "body") or "body"
    return re.sub(r"[^\x20-\x7e]", "?", name)[:LONGEST_FIELD]


async def _on_ledger(request: Request, error: Exception) -> Response:
    for kind, (status, code) in LEDGER_CODES.items():
        if isinstance(error, kind):
            return refusal(ServiceError(status, code, str(error)), _request_id(request))
    raise error


async def _on_ledger_away(request: Request, error: Exception) -> Response:
    log.error("ledger unavailable", error=str(error))
    away = ServiceError(503, "ledger_unavailable", "the ledger does not answer, try again", headers=RETRY_AFTER)
    return refusal(away, _request_id(request))


async def _on_bug(request: Request, error: Exception) -> Response:
    """Starlette re-raises after this answer, so the traceback still reaches the log."""
    log.error("request failed", request_id=_request_id(request), error=type(error).__name__)
    request_id = _request_id(request)
    bug = ServiceError(500, "internal", "internal error", headers={"X-Request-Id": request_id})
    return refusal(bug, request_id)


def _request_id(request: Request) -> str:
    return str(getattr(request.state, "request_id", ""))
