"""Telemetry: what Prometheus may scrape, prefix `ratchet_`. One registry per application."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Summary, generate_latest

from bank.episode import Episode

ERROR = "error: "
"""How the loop marks a tool's error (`agents.loop`)."""


class Telemetry:
    """Counters of this process, and gauges that are set when somebody scrapes."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "ratchet_http_requests", "HTTP responses", ("method", "route", "status"), registry=self.registry
        )
        self._by_response: dict[tuple[str, str, int], Counter] = {}
        """Finding a counter by its labels costs more than counting."""
        self._runs = Counter("ratchet_runs", "Recorded runs", ("policy", "stop_reason"), registry=self.registry)
        self._cut = Counter("ratchet_tool_results_cut", "Tool results cut for the prompt", registry=self.registry)
        self._steps = Counter("ratchet_steps", "Model calls of recorded runs", ("policy",), registry=self.registry)
        self._calls = Counter("ratchet_tool_calls", "Tool calls of recorded runs", registry=self.registry)
        self._tool_errors = Counter(
            "ratchet_tool_errors", "Tool calls whose error went back to the model", registry=self.registry
        )
        self._tokens = Counter("ratchet_tokens", "Tokens of recorded runs", ("kind",), registry=self.registry)
        self._reward = Summary(
            "ratchet_run_reward", "Verified reward of runs, 0 to 1", ("policy",), registry=self.registry
        )
        self._feedback = Counter("ratchet_feedback", "Stored feedback", ("metric",), registry=self.registry)
        self.reconcile_failures = Counter(
            "ratchet_reconcile_failures", "Failed passes of the reconciler", registry=self.registry
        )
        self.in_flight = Gauge("ratchet_runs_in_flight", "Runs being played", registry=self.registry)
        self.generation = Gauge(
            "ratchet_deployment_generation",
            "Generation of the pointer that this process serves",
            registry=self.registry,
        )
        self._bank = Gauge("ratchet_bank_size", "Rows in the bank", ("kind",), registry=self.registry)

    def count_request(self, method: str, route: str, status: int) -> None:
        """One HTTP response."""
        key = method, route, status
        if key not in self._by_response:
            self._by_response[key] = self._requests.labels(*key)
        self._by_response[key].inc()

    def count_run(self, episode: Episode) -> None:
        """One recorded episode."""
        self._cut.inc(len(episode.whole_results))
        self._runs.labels(episode.policy, episode.stop_reason.value).inc()
        self._steps.labels(episode.policy).inc(len(episode.turns))
        self._calls.inc(sum(len(turn.reply.tool_calls) for turn in episode.turns))
        observed = [message for turn in episode.turns for message in turn.observations]
        self._tool_errors.inc(sum(message.content.startswith(ERROR) for message in observed))
        self._tokens.labels("prompt").inc(sum(len(turn.prompt_ids) for turn in episode.turns))
        self._tokens.labels("completion").inc(sum(len(turn.sampled_ids) for turn in episode.turns))
        if episode.reward is not None:
            self._reward.labels(episode.policy).observe(episode.reward)

    def count_feedback(self, known_metric: str) -> None:
        """One stored row; the label is "other" for a metric of the caller's own naming."""
        self._feedback.labels(known_metric).inc()

    def set_bank(self, sizes: dict[str, int]) -> None:
        """Sizes by kind."""
        for kind, size in sizes.items():
            self._bank.labels(kind).set(size)

    def exposition(self) -> bytes:
        """Prometheus text format."""
        return generate_latest(self.registry)
