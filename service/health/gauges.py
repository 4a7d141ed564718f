"""Gauges that are read from the ledger and the fleet when somebody scrapes: the same on every gateway."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bank.round import RoundStatus
from bank.vitals import Vitals
from service.fleet import Fleet

SWAPS = {
    "deployment.promote": "promoted",
    "deployment.rollback": "rolled_back",
    "checkpoint.rejected": "rejected",
    "checkpoint.handed_over": "handed_over",
}
"""Audit actions that are results of a swap, and their label."""
GIVEN_UP = "round.given_up"


class Gauges(Collector):
    """One scrape."""

    def __init__(self, vitals: Vitals, fleet: Fleet, now: datetime | None = None) -> None:
        self._vitals = vitals
        self._fleet = fleet
        self._now = now or datetime.now(UTC)

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client asks for them."""
        yield from self._queues()
        yield from self._outbox()
        yield from self._rounds()
        yield from self._swaps()
        yield from self._replicas()

    def _queues(self) -> Iterator[Metric]:
        age = GaugeMetricFamily("ratchet_queue_age_seconds", "Since a worker took a task", labels=["queue"])
        for pulse in self._vitals.pulses:
            age.add_metric([pulse.queue], self._since(pulse.at))
        yield age

    def _outbox(self) -> Iterator[Metric]:
        yield GaugeMetricFamily("ratchet_outbox_waiting", "Changes that the index lacks", self._vitals.outbox)
        since = self._vitals.outbox_since
        lag = 0.0 if since is None else self._since(since)
        yield GaugeMetricFamily("ratchet_outbox_lag_seconds", "Age of the oldest of them", lag)

    def _rounds(self) -> Iterator[Metric]:
        count = GaugeMetricFamily("ratchet_rounds", "Rounds", labels=["status"])
        for status in RoundStatus:
            count.add_metric([status.value], self._vitals.rounds.get(status.value, 0))
        yield count
        yield GaugeMetricFamily(
            "ratchet_rounds_given_up", "Rounds that lost all their attempts", self._vitals.changes.get(GIVEN_UP, 0)
        )
        steps = GaugeMetricFamily("ratchet_round_steps", "Steps that running rounds have made")
        attempts = GaugeMetricFamily("ratchet_round_attempts", "Most attempts of a running round")
        eta = GaugeMetricFamily("ratchet_round_eta_seconds", "To the last step of the running rounds")
        lost = GaugeMetricFamily("ratchet_rounds_without_worker", "Running rounds whose lease has run out")
        running = self._vitals.running
        steps.add_metric([], sum(row.steps for row in running))
        attempts.add_metric([], max((row.attempts for row in running), default=0))
        eta.add_metric([], sum(row.eta_seconds or 0.0 for row in running))
        lost.add_metric([], sum(row.lease_until is None or row.lease_until < self._now for row in running))
        yield from (steps, attempts, eta, lost)

    def _swaps(self) -> Iterator[Metric]:
        swaps = GaugeMetricFamily("ratchet_swaps", "Moves of the pointer, and versions refused", labels=["result"])
        for action, result in SWAPS.items():
            swaps.add_metric([result], self._vitals.changes.get(action, 0))
        yield swaps

    def _replicas(self) -> Iterator[Metric]:
        ready = set(self._fleet.ready())
        up = GaugeMetricFamily("ratchet_replica_ready", "Whether it holds the live version", labels=["replica"])
        held = GaugeMetricFamily("ratchet_replica_versions", "Versions that it holds", labels=["replica"])
        busy = GaugeMetricFamily("ratchet_replica_runs", "Runs that it is playing", labels=["replica"])
        for replica in self._fleet.replicas:
            up.add_metric([replica.name], float(replica in ready))
            held.add_metric([replica.name], len(replica.resident))
            busy.add_metric([replica.name], replica.leases.total())
        yield from (up, held, busy)

    def _since(self, moment: datetime) -> float:
        return max(0.0, (self._now - moment).total_seconds())
