"""Checks of the running service, over HTTP."""

from __future__ import annotations

from service.client import ApiError, Body, RatchetClient, Unreachable
from service.diagnosis.finding import Finding, fail, ok, warn

KEY_ADVICE = "set RATCHET_API_KEY or --key to an operator's key"


def remote_findings(client: RatchetClient) -> list[Finding]:
    """Reachable, ready, key accepted, live version loaded; later checks need the earlier ones."""
    try:
        client.get("/healthz")
    except Unreachable as error:
        return [warn("service", str(error), "ratchet up")]
    except ApiError as error:
        return [fail("service", str(error), "look at the service's log")]
    return [ok("service", f"answers at {client.url}"), _readiness(client), _live_version(client)]


def _readiness(client: RatchetClient) -> Finding:
    try:
        client.get("/readyz")
    except (ApiError, Unreachable) as error:
        return fail("ready", str(error), "wait for the model to load, or look at the service's log")
    return ok("ready", "the live version can answer")


def _live_version(client: RatchetClient) -> Finding:
    try:
        pointer = client.get("/v1/deployment")
    except (ApiError, Unreachable) as error:
        return fail("live version", str(error), KEY_ADVICE)
    return judge_pointer(pointer)


def judge_pointer(pointer: Body) -> Finding:
    """Whether every replica holds the version that the pointer names."""
    current = pointer["current"]
    without = [replica["name"] for replica in pointer["replicas"] if current not in replica["versions"]]
    if without:
        return fail("live version", f"{current} is not loaded on {', '.join(without)}", "ratchet rollback")
    return ok("live version", f"{current}, generation {pointer['generation']}, {len(pointer['replicas'])} replica(s)")
