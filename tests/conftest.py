"""What tests of several rooms share: one vLLM server for the whole session."""

import pytest

from agents.vllm_engine.launch import Server
from tests.vllm_server import VllmServer, find_python, plan

STARTED = pytest.StashKey[VllmServer]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin to start the server at once when a chosen test needs it: other tests run meanwhile."""
    needed = any("vllm_process" in getattr(item, "fixturenames", ()) for item in session.items)
    if needed and find_python() is not None and not session.config.option.collectonly:
        server = session.config.stash[STARTED] = VllmServer(plan())
        server.start()


def pytest_unconfigure(config: pytest.Config) -> None:
    """End it."""
    server = config.stash.get(STARTED, None)
    if server is not None:
        server.stop()


@pytest.fixture(scope="session")
def vllm_process(request: pytest.FixtureRequest) -> VllmServer:
    """vLLM on the CPU with the shipped base; skips where it is not installed."""
    server = request.config.stash.get(STARTED, None)
    if server is None:
        pytest.skip("vLLM is not installed: run `make vllm`, or name an interpreter in RATCHET_VLLM_PYTHON")
    return server


@pytest.fixture
def vllm_server(vllm_process: VllmServer) -> Server:
    """The same, healthy, also after a test that killed it."""
    vllm_process.ensure_healthy()
    return vllm_process.server
