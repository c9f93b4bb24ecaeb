"""What the daemon counts, for /metrics. docs/metrics.md is generated from the list below.

Labels are names of clusters and fixed words only, never of objects or units: a daemon with ten thousand objects has the
same few hundred series as one with ten. The registry is the daemon's own, so that two in one process (tests) don't mix.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector
from prometheus_client.metrics import MetricWrapperBase

_FAST = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SLOW = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Counters of one daemon; every method is cheap (about a microsecond) and safe in any thread."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        r = self.registry
        self._api_calls = Counter(
            "gitops_api_calls",
            "Calls to Kubernetes API servers, watches included. code is the HTTP status, or `error` without an answer.",
            ("cluster", "verb", "code"),
            registry=r,
        )
        self._applies = Counter(
            "gitops_applies",
            "Objects applied, by result: created, changed, unchanged, refused, waiting, failed.",
            ("cluster", "result"),
            registry=r,
        )
        self._deletes = Counter(
            "gitops_deletes", "Objects pruned, by result: deleted, kept, failed.", ("cluster", "result"), registry=r
        )
        self._drifts = Counter("gitops_drifts", "Objects found to differ from Git.", ("cluster",), registry=r)
        self._repairs = Histogram(
            "gitops_repair_seconds",
            "Seconds from the watch event of a foreign change to the answer of the repairing write.",
            ("cluster",),
            buckets=_FAST,
            registry=r,
        )
        self._fetches = Counter(
            "gitops_fetches",
            "Looks at the repository, by result: unchanged, advanced, rewritten, or the class of the error.",
            ("result",),
            registry=r,
        )
        self._fetch_seconds = Histogram(
            "gitops_fetch_seconds", "Duration of a look at the repository.", buckets=_SLOW, registry=r
        )
        self._compile_seconds = Histogram(
            "gitops_compile_seconds", "Duration of compiling one head.", buckets=_SLOW, registry=r
        )
        self._findings = Gauge(
            "gitops_findings", "Findings at the current head, by severity.", ("severity",), registry=r
        )
        self._commits = Counter(
            "gitops_status_commits",
            "Commits to the status branch, by result: pushed, refused, failed.",
            ("result",),
            registry=r,
        )
        self._units = Gauge("gitops_units", "Units, by cluster and status.", ("cluster", "status"), registry=r)
        self._reachable = Gauge(
            "gitops_cluster_reachable", "1 while the cluster's API server answers, else 0.", ("cluster",), registry=r
        )
        self._webhooks = Counter(
            "gitops_webhook_deliveries",
            "Webhook deliveries, by result: accepted, closed, unsigned, wrong_signature, too_large, too_many, failed.",
            ("result",),
            registry=r,
        )
        self._shown: set[tuple[str, str]] = set()

    def api_call(self, cluster: str, verb: str, code: int | None) -> None:
        """One call ended; `verb` as Kubernetes' audit log has it (get, list, watch, patch, …), None = no answer."""
        self._api_calls.labels(cluster, verb, "error" if code is None else str(code)).inc()

    def applied(self, cluster: str, result: str) -> None:
        self._applies.labels(cluster, result).inc()

    def deleted(self, cluster: str, result: str) -> None:
        self._deletes.labels(cluster, result).inc()

    def drifted(self, cluster: str) -> None:
        self._drifts.labels(cluster).inc()

    def repaired(self, cluster: str, seconds: float) -> None:
        self._repairs.labels(cluster).observe(seconds)

    def fetched(self, result: str, seconds: float) -> None:
        self._fetches.labels(result).inc()
        self._fetch_seconds.observe(seconds)

    def compiled(self, seconds: float, findings: Mapping[str, int]) -> None:
        """One head compiled; `findings` counts by severity."""
        self._compile_seconds.observe(seconds)
        for severity in ("error", "warning", "info"):
            self._findings.labels(severity).set(findings.get(severity, 0))

    def status_committed(self, result: str) -> None:
        self._commits.labels(result).inc()

    def units(self, counts: Mapping[tuple[str, str], int]) -> None:
        """All units now, counted by (cluster, status). Pairs that are gone become 0 once and then vanish."""
        gone = self._shown - set(counts)
        for cluster, status in gone:
            self._units.remove(cluster, status)
        for (cluster, status), count in counts.items():
            self._units.labels(cluster, status).set(count)
        self._shown = set(counts)

    def cluster_reachable(self, cluster: str, reachable: bool) -> None:
        self._reachable.labels(cluster).set(1 if reachable else 0)

    def cluster_removed(self, cluster: str) -> None:
        """The Cluster document is gone: a gauge that says 1 for ever would lie."""
        if (cluster,) in self._reachable._metrics:
            self._reachable.remove(cluster)

    def webhook(self, result: str) -> None:
        self._webhooks.labels(result).inc()

    def described(self) -> Iterable[tuple[str, str, tuple[str, ...], str]]:
        """Name as scraped, type, labels and help of each metric of ours, in order."""
        for metric in vars(self).values():
            if isinstance(metric, MetricWrapperBase):
                suffix = "_total" if metric._type == "counter" else ""
                yield metric._name + suffix, str(metric._type), tuple(metric._labelnames), metric._documentation
