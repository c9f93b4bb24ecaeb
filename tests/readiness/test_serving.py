from __future__ import annotations

from typing import Any

import pytest

from gitops.readiness.serving import has_ready_endpoint

SERVICE = {
    "metadata": {"name": "llama", "namespace": "ns"},
    "spec": {"ports": [{"name": "api", "port": 8000}, {"name": "metrics", "port": 9000}]},
}


def piece(
    ready: bool | None = True, *, service: str = "llama", namespace: str = "ns", port: str = "api"
) -> dict[str, Any]:
    return {
        "metadata": {"namespace": namespace, "labels": {"kubernetes.io/service-name": service}},
        "ports": [{"name": port, "port": 8000}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {} if ready is None else {"ready": ready}}],
    }


@pytest.mark.parametrize(
    ("slices", "port", "wanted"),
    [
        ([piece()], 8000, True),
        ([piece(None)], 8000, True),
        ([piece(False)], 8000, False),
        ([piece(False), piece()], 8000, True),
        ([piece(service="other")], 8000, False),
        ([piece(namespace="other")], 8000, False),
        ([piece(port="metrics")], 8000, False),
        ([piece()], 8001, False),
        ([], 8000, False),
        ([{"metadata": {"namespace": "ns"}, "ports": None, "endpoints": None}], 8000, False),
    ],
)
def test_ready_endpoint_of_the_named_port(slices: list[dict[str, Any]], port: int, wanted: bool) -> None:
    assert has_ready_endpoint(SERVICE, slices, port) is wanted


def test_a_missing_service_serves_nothing() -> None:
    assert not has_ready_endpoint(None, [piece()], 8000)
