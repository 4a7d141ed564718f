"""The gateway's benchmark, short: a real gateway over a server with vLLM's answers."""

from pathlib import Path

from bank.ledger.ledger import Ledger
from benchmarks.chaos.gateway import Gateway
from benchmarks.gateway.__main__ import upstream
from benchmarks.gateway.measure import Arm, as_report, compare
from benchmarks.gateway.upstream import MODEL, TOKENS


def test_every_answer_is_on_record_with_its_tokens_and_the_figures_are_whole(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite3'}"
    with upstream(5) as server, Gateway(tmp_path, url, program=("-m", "benchmarks.gateway.serve", server)) as gateway:
        figures = compare(Arm(server, MODEL, {}), gateway, seconds=0.4, senders=8)
    ledger = Ledger.open(url)
    with ledger.read() as books:
        recorded, (newest,) = books.episodes.count(), books.episodes.latest(1)
    ledger.close()

    assert recorded >= figures["requests_per_s"] * 0.4
    assert len(newest.turns[0].sampled_ids) == len(newest.turns[0].logprobs) == TOKENS
    assert figures["gateway_cpu_ms"] > 0
    assert 0 < figures["throughput_ratio"] < 1
    assert set(as_report(figures, figures)) == {
        "gateway_cpu_ms", "gateway_added_ms_p50", "gateway_added_ms_p99", "throughput_ratio_50ms"
    }  # fmt: skip
