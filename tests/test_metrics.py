"""The Prometheus side of what the engine counts."""

from __future__ import annotations

import inspect
import time

from prometheus_client import generate_latest

from gitops.cluster.connection import ConnectionStats
from gitops.metrics import PrometheusMetrics
from gitops.model.identity import ClusterName
from gitops.reconcile.metrics import Metrics, NoMetrics

A = ClusterName("dgx-a")


def lines(metrics: PrometheusMetrics, name: str) -> list[str]:
    text = generate_latest(metrics.registry).decode()
    return sorted(line for line in text.splitlines() if line.startswith(name))


def test_engine_can_count_with_it() -> None:
    def engine(metrics: Metrics) -> None:
        metrics.applied(A, "created")
        metrics.drifted(A, "changed")
        metrics.drift_became(A, "repaired")
        metrics.repaired(A, 0.04)
        metrics.pruned(A)
        metrics.fetched("advanced")
        metrics.compiled(0.2, 3)
        metrics.status_pushed("pushed")
        metrics.cluster_reachable(A, True)

    metrics = PrometheusMetrics()
    engine(metrics)
    engine(NoMetrics())
    assert lines(metrics, "gitops_drifts_total") == ['gitops_drifts_total{cluster="dgx-a",kind="changed"} 1.0']
    assert lines(metrics, "gitops_drift_results_total") == [
        'gitops_drift_results_total{cluster="dgx-a",result="repaired"} 1.0'
    ]
    assert lines(metrics, "gitops_findings_errors") == ["gitops_findings_errors 3.0"]
    assert 'gitops_repair_seconds_bucket{cluster="dgx-a",le="0.05"} 1.0' in lines(metrics, "gitops_repair_seconds")
    for name, member in inspect.getmembers(Metrics, inspect.isfunction):
        if not name.startswith("_"):
            ours = inspect.signature(getattr(PrometheusMetrics, name)).parameters
            assert list(inspect.signature(member).parameters) == list(ours), name


def test_states_that_no_unit_is_in_vanish() -> None:
    metrics = PrometheusMetrics()
    metrics.units(A, {"Synced": 2, "Waiting": 1})
    metrics.units(A, {"Synced": 3})
    assert lines(metrics, "gitops_units{") == ['gitops_units{cluster="dgx-a",state="Synced"} 3.0']


def test_cluster_that_left_git_leaves_no_gauge() -> None:
    metrics = PrometheusMetrics()
    metrics.units(A, {"Synced": 2})
    metrics.cluster_reachable(A, False)
    assert lines(metrics, "gitops_cluster_reachable{") == ['gitops_cluster_reachable{cluster="dgx-a"} 0.0']
    metrics.cluster_removed(A)
    assert lines(metrics, "gitops_cluster_reachable{") == []
    assert lines(metrics, "gitops_units{") == []


def test_a02_the_age_of_each_watched_kind_grows_until_something_is_heard() -> None:
    metrics, heard = PrometheusMetrics(), {"ConfigMap": time.time() - 500, "Deployment.apps": time.time()}
    metrics.watching(A, lambda: heard)
    deployments, maps = sorted(lines(metrics, "gitops_watch_age_seconds{"), reverse=True)
    assert maps.startswith('gitops_watch_age_seconds{cluster="dgx-a",kind="ConfigMap"} ')
    assert 500 <= float(maps.split()[1]) < 510
    assert float(deployments.split()[1]) < 10
    heard["ConfigMap"] = time.time() + 60
    assert 'gitops_watch_age_seconds{cluster="dgx-a",kind="ConfigMap"} 0.0' in lines(metrics, "gitops_watch_age_sec")
    metrics.cluster_reachable(A, True)
    metrics.cluster_removed(A)
    assert lines(metrics, "gitops_watch_age_seconds{") == []


def test_audits_are_counted() -> None:
    metrics = PrometheusMetrics()
    metrics.audited(A, 1000.0, 0)
    metrics.audited(A, 2000.0, 3)
    metrics.audit_checked(A, "same")
    assert lines(metrics, "gitops_audits_total{") == ['gitops_audits_total{cluster="dgx-a"} 2.0']
    assert lines(metrics, "gitops_audit_end") == ['gitops_audit_end_timestamp_seconds{cluster="dgx-a"} 2000.0']
    assert lines(metrics, "gitops_audit_found_total{") == ['gitops_audit_found_total{cluster="dgx-a"} 3.0']
    assert lines(metrics, "gitops_audit_checks_total{") == [
        'gitops_audit_checks_total{cluster="dgx-a",result="same"} 1.0'
    ]
    metrics.cluster_reachable(A, True)
    metrics.cluster_removed(A)
    assert lines(metrics, "gitops_audit_end_timestamp_seconds{") == []


def test_two_daemons_in_one_process_count_apart() -> None:
    one, two = PrometheusMetrics(), PrometheusMetrics()
    one.webhook("closed")
    assert lines(one, "gitops_webhook_deliveries_total{") == ['gitops_webhook_deliveries_total{result="closed"} 1.0']
    assert lines(two, "gitops_webhook_deliveries_total{") == []


def test_calls_are_read_from_the_connections_and_survive_a_new_one() -> None:
    metrics, first, second = PrometheusMetrics(), ConnectionStats(), ConnectionStats()
    metrics.api.track(A, first)
    first.requests["GET"] += 2
    first.answers[200] += 1
    first.failures["Timeout"] += 1
    assert lines(metrics, "gitops_api_requests_total{") == ['gitops_api_requests_total{cluster="dgx-a",verb="GET"} 2.0']
    metrics.api.track(A, second)
    second.requests["GET"] += 1
    second.requests["PATCH"] += 1
    assert lines(metrics, "gitops_api_requests_total{") == [
        'gitops_api_requests_total{cluster="dgx-a",verb="GET"} 3.0',
        'gitops_api_requests_total{cluster="dgx-a",verb="PATCH"} 1.0',
    ]
    assert lines(metrics, "gitops_api_answers_total{") == ['gitops_api_answers_total{cluster="dgx-a",code="200"} 1.0']
    assert lines(metrics, "gitops_api_failures_total{") == [
        'gitops_api_failures_total{cluster="dgx-a",reason="Timeout"} 1.0'
    ]


def test_how_a_cluster_answers_is_read_from_its_connection_and_ends_with_the_cluster() -> None:
    metrics, first, second = PrometheusMetrics(), ConnectionStats(limit=8), ConnectionStats(limit=8)
    metrics.cluster_reachable(A, False)
    metrics.api.track(A, first)
    first.throttled, first.spared, first.renewals = 1, 20, 1
    metrics.api.track(A, second)
    second.throttled, second.limit, second.broken = 2, 4, True
    assert lines(metrics, "gitops_api_throttled_total{") == ['gitops_api_throttled_total{cluster="dgx-a"} 3.0']
    assert lines(metrics, "gitops_api_spared_total{") == ['gitops_api_spared_total{cluster="dgx-a"} 20.0']
    assert lines(metrics, "gitops_api_renewals_total{") == ['gitops_api_renewals_total{cluster="dgx-a"} 1.0']
    assert lines(metrics, "gitops_api_in_flight_limit{") == ['gitops_api_in_flight_limit{cluster="dgx-a"} 4.0']
    assert lines(metrics, "gitops_api_circuit_open{") == ['gitops_api_circuit_open{cluster="dgx-a"} 1.0']
    metrics.cluster_removed(A)
    assert lines(metrics, "gitops_api_") == []
