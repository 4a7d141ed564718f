from __future__ import annotations

import threading
from queue import Empty

import pytest
from kombu import Connection

from trainer.folder_queue import URL, Transport, transport_options


@pytest.fixture
def connect(tmp_path):
    opened = []

    def build():
        opened.append(Connection(URL, transport=Transport, transport_options=transport_options(tmp_path)))
        return opened[-1]

    yield build
    for connection in opened:
        connection.release()


def test_a_message_crosses_from_one_connection_to_another(connect):
    with connect().SimpleQueue("rounds") as sender, connect().SimpleQueue("rounds") as reader:
        sender.put({"round": "rd_1"})
        message = reader.get(timeout=10)
        message.ack()
        assert message.payload == {"round": "rd_1"}


@pytest.mark.parametrize("content", [b"", b'{"body": "hal'])
def test_a_torn_message_is_dropped(connect, tmp_path, content):
    channel = connect().channel()
    (tmp_path / "messages" / "1_torn.rounds.msg").write_bytes(content)
    with pytest.raises(Empty):
        channel._get("rounds")
    assert list((tmp_path / "messages").iterdir()) == []


def test_a_routing_table_that_is_being_written_is_waited_for(connect, tmp_path):
    channel = connect().channel()
    table = tmp_path / "control" / "rounds.exchange"
    table.write_bytes(b"")
    writer = threading.Timer(0.1, lambda: table.write_text("[]"))
    writer.start()
    channel._queue_bind("rounds", "rounds", "", "rounds")
    writer.join()
    assert channel.get_table("rounds") == [("rounds", "", "rounds")]
