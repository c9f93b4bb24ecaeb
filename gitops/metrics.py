"""What the daemon counts, for /metrics. docs/metrics.md is generated from the list below.

Labels are names of clusters and kinds and fixed words, never names of objects or units: a daemon with ten thousand
objects has the same few hundred series as one with ten. The registry is the daemon's own, so that two in one process
(tests) don't mix.
"""

from __future__ import annotations

import time
from collections import Counter as Counts
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    Metric,
    PlatformCollector,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

_Counts = dict[str, int]

_FAST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class CallStats(Protocol):
    """Counters of one connection since it was opened (gitops.cluster.connection.ConnectionStats)."""

    @property
    def requests(self) -> Mapping[str, int]: ...
    @property
    def answers(self) -> Mapping[int, int]: ...
    @property
    def failures(self) -> Mapping[str, int]: ...
    @property
    def throttled(self) -> int: ...
    @property
    def spared(self) -> int: ...
    @property
    def renewals(self) -> int: ...
    @property
    def limit(self) -> int: ...
    @property
    def broken(self) -> bool: ...


class ApiCalls(Collector):
    """Calls per cluster, read from the connections' own counters when somebody scrapes. Connections come and go (new
    credentials, a cluster that was away); what an earlier one counted is kept."""

    _FAMILIES = (
        ("gitops_api_requests", "verb", "Requests sent to API servers, watches included."),
        ("gitops_api_answers", "code", "Answers of API servers, by HTTP status."),
        ("gitops_api_failures", "reason", "Requests that got no answer, by reason."),
    )
    _TOTALS = (
        ("gitops_api_throttled", "throttled", "Answers of 429 that stopped all requests to the cluster for a while."),
        ("gitops_api_spared", "spared", "Requests not sent, because the cluster does not answer."),
        ("gitops_api_renewals", "renewals", "Times that the cluster's credentials were read anew."),
    )
    _GAUGES = (
        ("gitops_api_in_flight_limit", "limit", "Requests that may be in flight; answers of 429 lower it for a while."),
        ("gitops_api_circuit_open", "broken", "1 while requests are not sent because the cluster does not answer."),
    )

    def __init__(self) -> None:
        self._current: dict[str, CallStats] = {}
        self._before: dict[str, tuple[_Counts, _Counts, _Counts]] = {}
        self._totals_before: dict[str, _Counts] = {}

    def track(self, cluster: str, stats: CallStats) -> None:
        """A connection was opened to a cluster; the one before it counts no more."""
        old = self._current.get(cluster)
        if old is not None and old is not stats:
            self._before[cluster] = self._counts(cluster)
            self._totals_before[cluster] = self._totals(cluster)
        self._current[cluster] = stats

    def collect(self) -> Iterable[Metric]:
        for index, (name, label, text) in enumerate(self._FAMILIES):
            family = CounterMetricFamily(name, text, labels=("cluster", label))
            for cluster in sorted(self._current):
                for key, count in sorted(self._counts(cluster)[index].items()):
                    family.add_metric((cluster, key), count)
            yield family
        for name, attribute, text in self._TOTALS:
            total = CounterMetricFamily(name, text, labels=("cluster",))
            for cluster in sorted(self._current):
                total.add_metric((cluster,), self._totals(cluster)[attribute])
            yield total
        for name, attribute, text in self._GAUGES:
            gauge = GaugeMetricFamily(name, text, labels=("cluster",))
            for cluster, stats in sorted(self._current.items()):
                gauge.add_metric((cluster,), getattr(stats, attribute))
            yield gauge

    def forget(self, cluster: str) -> None:
        """The Cluster document is gone."""
        self._current.pop(cluster, None)
        self._before.pop(cluster, None)
        self._totals_before.pop(cluster, None)

    def described(self) -> Iterable[tuple[str, str, tuple[str, ...], str]]:
        yield from ((f"{name}_total", "counter", ("cluster", label), text) for name, label, text in self._FAMILIES)
        yield from ((f"{name}_total", "counter", ("cluster",), text) for name, _, text in self._TOTALS)
        yield from ((name, "gauge", ("cluster",), text) for name, _, text in self._GAUGES)

    def _totals(self, cluster: str) -> _Counts:
        before, now = self._totals_before.get(cluster, {}), self._current[cluster]
        return {attribute: before.get(attribute, 0) + getattr(now, attribute) for _, attribute, _ in self._TOTALS}

    def _counts(self, cluster: str) -> tuple[_Counts, _Counts, _Counts]:
        before, now = self._before.get(cluster, ({}, {}, {})), self._current[cluster]
        return (
            _sum(before[0], now.requests),
            _sum(before[1], {str(code): count for code, count in list(now.answers.items())}),
            _sum(before[2], now.failures),
        )


class WatchAges(Collector):
    """For how long nothing was heard of a kind, reckoned when somebody scrapes: it also grows while the daemon's own
    loop is stuck. A cluster's watches are asked through what they gave at their begin, in the thread of the scrape."""

    NAME = "gitops_watch_age_seconds"
    TEXT = (
        "Seconds since the last event, bookmark or list of a watched kind, by kind and group. A healthy server says "
        "something every two minutes at least, and a silent watch is given up after 200 s: alarm above 400."
    )

    def __init__(self, wall: Callable[[], float] = time.time) -> None:
        self._wall = wall
        self._heard: dict[str, Callable[[], Mapping[str, float]]] = {}

    def track(self, cluster: str, heard: Callable[[], Mapping[str, float]]) -> None:
        self._heard[cluster] = heard

    def forget(self, cluster: str) -> None:
        self._heard.pop(cluster, None)

    def collect(self) -> Iterable[Metric]:
        family, now = GaugeMetricFamily(self.NAME, self.TEXT, labels=("cluster", "kind")), self._wall()
        for cluster, heard in sorted(self._heard.items()):
            for kind, at in sorted(heard().items()):
                family.add_metric((cluster, kind), max(0.0, now - at))
        yield family

    def described(self) -> Iterable[tuple[str, str, tuple[str, ...], str]]:
        return [(self.NAME, "gauge", ("cluster", "kind"), self.TEXT)]


def _sum(a: Mapping[str, int], b: Mapping[str, int]) -> _Counts:
    # A copy first: the loop may count while the scrape, in its own thread, reads.
    return dict(Counts(dict(a)) + Counts(dict(b)))


class PrometheusMetrics:
    """Counters of one daemon (gitops.reconcile.metrics.Metrics); a method takes about a microsecond, in any thread."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # a `_created` series beside each counter tells nobody anything
        self.registry = registry or CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        r = self.registry
        self.api = ApiCalls()
        r.register(self.api)
        self.watches = WatchAges()
        r.register(self.watches)
        self._applies = Counter("gitops_applies", "Objects applied, by result.", ("cluster", "result"), registry=r)
        self._prunes = Counter(
            "gitops_prunes", "Objects deleted because Git no longer has them.", ("cluster",), registry=r
        )
        self._drifts = Counter(
            "gitops_drifts",
            "Differences from Git found on clusters, by kind: changed, deleted, relabelled, recreated, child. One that "
            "stays counts once.",
            ("cluster", "kind"),
            registry=r,
        )
        self._drift_results = Counter(
            "gitops_drift_results",
            "What became of differences from Git, by result: repaired, reported, contested, overridden, failed, …",
            ("cluster", "result"),
            registry=r,
        )
        self._open = Gauge(
            "gitops_drifts_open",
            "Differences from Git that are not repaired: not allowed to, given up, or a moment old.",
            ("cluster",),
            registry=r,
        )
        self._repairs = Histogram(
            "gitops_repair_seconds",
            "Seconds from the watch event of a foreign change to the answer of the repairing write; without what a "
            "mode or a pause leaves for a while.",
            ("cluster",),
            buckets=_FAST,
            registry=r,
        )
        self._fetches = Counter(
            "gitops_fetches", "Looks at the repository, by result: ok, failed.", ("result",), registry=r
        )
        self._compile_seconds = Histogram(
            "gitops_compile_seconds", "Duration of compiling one head.", buckets=_SLOW, registry=r
        )
        self._errors = Gauge("gitops_findings_errors", "Findings of severity error at the current head.", registry=r)
        self._pushes = Counter(
            "gitops_status_pushes", "Pushes to the status branch, by result.", ("result",), registry=r
        )
        self._units = Gauge("gitops_units", "Units, by cluster and state.", ("cluster", "state"), registry=r)
        self._reachable = Gauge(
            "gitops_cluster_reachable", "1 while the cluster's API server answers, else 0.", ("cluster",), registry=r
        )
        self._audits = Counter("gitops_audits", "Complete audits of a cluster.", ("cluster",), registry=r)
        self._audited = Gauge(
            "gitops_audit_end_timestamp_seconds",
            "When the last complete audit of a cluster ended, in seconds since the epoch.",
            ("cluster",),
            registry=r,
        )
        self._audit_found = Counter(
            "gitops_audit_found",
            "Differences that an audit found and no watch had told: events are lost between here and that cluster.",
            ("cluster",),
            registry=r,
        )
        self._audit_checks = Counter(
            "gitops_audit_checks",
            "Objects of which an audit dry-ran the apply, by result: same, differs (a defect), skipped.",
            ("cluster", "result"),
            registry=r,
        )
        self._webhooks = Counter(
            "gitops_webhook_deliveries",
            "Webhook deliveries, by result: accepted, closed, unsigned, wrong_signature, too_large, too_many, failed.",
            ("result",),
            registry=r,
        )
        self._shown: dict[str, set[str]] = {}
        self._audited_clusters: set[str] = set()

    def applied(self, cluster: str, result: str) -> None:
        self._applies.labels(cluster, result).inc()

    def drifted(self, cluster: str, kind: str) -> None:
        self._drifts.labels(cluster, kind).inc()

    def drift_became(self, cluster: str, result: str) -> None:
        self._drift_results.labels(cluster, result).inc()

    def drifts_open(self, cluster: str, count: int) -> None:
        self._open.labels(cluster).set(count)

    def repaired(self, cluster: str, seconds: float) -> None:
        self._repairs.labels(cluster).observe(seconds)

    def pruned(self, cluster: str) -> None:
        self._prunes.labels(cluster).inc()

    def fetched(self, result: str) -> None:
        self._fetches.labels(result).inc()

    def compiled(self, seconds: float, errors: int) -> None:
        self._compile_seconds.observe(seconds)
        self._errors.set(errors)

    def status_pushed(self, result: str) -> None:
        self._pushes.labels(result).inc()

    def cluster_reachable(self, cluster: str, reachable: bool) -> None:
        self._reachable.labels(cluster).set(1 if reachable else 0)

    def cluster_removed(self, cluster: str) -> None:
        """The Cluster document is gone: a gauge that keeps its last value for ever would lie."""
        self.units(cluster, {})
        self._reachable.remove(cluster)
        self._open.remove(cluster)
        self.watches.forget(cluster)
        if cluster in self._audited_clusters:
            self._audited.remove(cluster)
            self._audited_clusters.remove(cluster)
        self.api.forget(cluster)

    def units(self, cluster: str, by_state: dict[str, int]) -> None:
        """All units of a cluster now, counted by state; states that are not named vanish."""
        for state in self._shown.get(cluster, set()) - set(by_state):
            self._units.remove(cluster, state)
        for state, count in by_state.items():
            self._units.labels(cluster, state).set(count)
        self._shown[cluster] = set(by_state)

    def watching(self, cluster: str, heard: Callable[[], Mapping[str, float]]) -> None:
        """A cluster is watched: `heard` says when the server last said anything of each kind (Unix seconds)."""
        self.watches.track(cluster, heard)

    def audited(self, cluster: str, ended: float, found: int) -> None:
        self._audits.labels(cluster).inc()
        self._audited.labels(cluster).set(ended)
        self._audit_found.labels(cluster).inc(found)
        self._audited_clusters.add(cluster)

    def audit_checked(self, cluster: str, result: str) -> None:
        self._audit_checks.labels(cluster, result).inc()

    def webhook(self, result: str) -> None:
        self._webhooks.labels(result).inc()

    def described(self) -> Iterable[tuple[str, str, tuple[str, ...], str]]:
        """Name as scraped, type, labels and help of each metric of ours, in order."""
        yield from self.api.described()
        yield from self.watches.described()
        for metric in vars(self).values():
            if isinstance(metric, MetricWrapperBase):
                suffix = "_total" if metric._type == "counter" else ""
                yield metric._name + suffix, str(metric._type), tuple(metric._labelnames), metric._documentation
