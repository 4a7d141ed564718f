import httpx
import pytest

from service.client import ApiError, RatchetClient, Unreachable, operator_key, read_events


def client(handler) -> RatchetClient:
    return RatchetClient("http://ratchet", "secret", httpx.MockTransport(handler))


def test_key_goes_into_the_header_and_absent_query_values_stay_out() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"rounds": []})

    with client(answer) as api:
        assert api.get("/v1/rounds", limit=3, before=None) == {"rounds": []}
    assert seen[0].headers["Authorization"] == "Bearer secret"
    assert str(seen[0].url) == "http://ratchet/v1/rounds?limit=3"


def test_error_body_becomes_one_line_with_code_and_request() -> None:
    body = {"error": {"code": "unknown_episode", "message": "no episode ep_1"}, "request_id": "r7"}
    with client(lambda _: httpx.Response(404, json=body)) as api, pytest.raises(ApiError) as caught:
        api.post("/feedback", {"episode_id": "ep_1"})
    assert (caught.value.status, caught.value.code) == (404, "unknown_episode")
    assert str(caught.value) == "no episode ep_1 (404 unknown_episode) [request r7]"


@pytest.mark.parametrize("text", ["<html>", "[]", '{"error": "text"}'])
def test_error_without_the_agreed_shape_is_still_an_api_error(text: str) -> None:
    with client(lambda _: httpx.Response(502, text=text)) as api, pytest.raises(ApiError) as caught:
        api.get("/healthz")
    assert caught.value.code == "unreadable"


def test_refused_connection_says_what_to_start() -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("connection refused", request=request)

    with client(refuse) as api, pytest.raises(Unreachable, match="ratchet up"):
        api.get("/healthz")
    with client(refuse) as api:
        assert api.ready() is False


def test_answer_that_is_no_json_is_another_service() -> None:
    with client(lambda _: httpx.Response(200, text="hello")) as api, pytest.raises(Unreachable, match="JSON"):
        api.get("/healthz")


def test_stream_yields_events_in_order_and_asks_for_a_stream() -> None:
    text = 'event: run\ndata: {"id": "ep_1"}\n\n: still here\n\nevent: done\ndata: {"id":\ndata: "ep_1"}\n\n'

    def answer(request: httpx.Request) -> httpx.Response:
        assert b'"stream":true' in request.content.replace(b" ", b"")
        return httpx.Response(200, text=text)

    with client(answer) as api:
        assert list(api.stream_run({"input": "hi"})) == [("run", {"id": "ep_1"}), ("done", {"id": "ep_1"})]


def test_refused_stream_is_an_api_error() -> None:
    body = {"error": {"code": "busy", "message": "too many runs"}, "request_id": "r1"}
    with client(lambda _: httpx.Response(503, json=body)) as api, pytest.raises(ApiError, match="busy"):
        list(api.stream_run({"input": "hi"}))


def test_unfinished_event_is_not_yielded() -> None:
    assert list(read_events(["event: run", 'data: {"id": "a"}'])) == []


def test_operator_key_is_read_from_the_data_folder(tmp_path) -> None:
    assert operator_key(tmp_path) is None
    (tmp_path / "operator.key").write_text("rk_1\n")
    assert operator_key(tmp_path) == "rk_1"
