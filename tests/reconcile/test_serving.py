"""Whether a Service has somebody behind it, from events and one read."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.cluster.errors import ErrorClass
from gitops.cluster.reflecting import Changed, Deleted, Synced, Vanished
from gitops.model.identity import ObjectRef
from gitops.plan.units import Unit
from gitops.reconcile.serving import Serving, slices_watch

PLACE = ("shop", "front")
SERVICE = ObjectRef("", "Service", *PLACE)


def piece(*, ready: bool | None = True, uid: str = "s-1", port: str = "http") -> dict[str, Any]:
    conditions = {} if ready is None else {"ready": ready}
    return {
        "metadata": {"namespace": "shop", "uid": uid, "labels": {"kubernetes.io/service-name": "front"}},
        "ports": [{"name": port, "port": 8000}],
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": conditions}],
    }


@pytest.fixture
def unit(kit: Any) -> Unit:
    found: Unit = kit.unit(namespace="shop", service_name="front", service_port=80)
    return found


@pytest.fixture
def service(cluster: Any) -> dict[str, Any]:
    cluster.objects[SERVICE] = {"metadata": {}, "spec": {"ports": [{"port": 80, "name": "http", "nodePort": 1}]}}
    found: dict[str, Any] = cluster.objects[SERVICE]
    return found


async def seen(serving: Serving, *events: Any) -> Serving:
    for event in events:
        place = serving.event(event)
        if place is not None:
            await serving.read(place)
    return serving


async def test_a_ready_endpoint_on_the_declared_port_serves(cluster: Any, unit: Unit, service: Any) -> None:
    serving = await seen(Serving(cluster), Changed(piece()))
    assert serving.serving(unit) is True


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(piece(ready=False), id="nobody is ready"),
        pytest.param(piece(port="metrics"), id="ready on another port only"),
    ],
)
async def test_anything_else_does_not_serve(cluster: Any, unit: Unit, service: Any, other: dict[str, Any]) -> None:
    serving = await seen(Serving(cluster), Changed(other))
    assert serving.serving(unit) is False


async def test_an_absent_ready_condition_counts_as_ready(cluster: Any, unit: Unit, service: Any) -> None:
    assert (await seen(Serving(cluster), Changed(piece(ready=None)))).serving(unit) is True


async def test_before_anything_was_seen_it_does_not_serve(cluster: Any, unit: Unit) -> None:
    assert Serving(cluster).serving(unit) is False


@pytest.mark.parametrize("gone", [Deleted(piece()), Vanished(ObjectRef("", "EndpointSlice", "shop", "x"), "s-1")])
async def test_a_slice_that_left_serves_no_more(cluster: Any, unit: Unit, service: Any, gone: Any) -> None:
    serving = await seen(Serving(cluster), Changed(piece()), gone)
    assert serving.serving(unit) is False


async def test_one_of_two_slices_is_enough(cluster: Any, unit: Unit, service: Any) -> None:
    serving = await seen(Serving(cluster), Changed(piece()), Changed(piece(uid="s-2")), Deleted(piece()))
    assert serving.serving(unit) is True


async def test_an_error_leaves_what_was_known_and_is_given_back(
    kit: Any, cluster: Any, unit: Unit, service: Any
) -> None:
    serving = await seen(Serving(cluster), Changed(piece()))
    cluster.faults["get", "front"] = kit.error(ErrorClass.UNREACHABLE)
    assert (await serving.read(PLACE)) is cluster.faults["get", "front"]
    assert serving.serving(unit) is True


async def test_a_deleted_service_serves_no_more(cluster: Any, unit: Unit, service: Any) -> None:
    serving = await seen(Serving(cluster), Changed(piece()))
    cluster.objects.clear()
    await serving.read(PLACE)
    assert serving.serving(unit) is False


def test_other_events_concern_no_service(cluster: Any) -> None:
    assert Serving(cluster).event(Synced(0, "1")) is None


def test_a_unit_that_names_no_service_has_no_answer(kit: Any, cluster: Any) -> None:
    assert Serving(cluster).serving(kit.unit()) is None


def test_one_watch_covers_all_named_services_and_there_is_none_without(kit: Any) -> None:
    units = [kit.unit(service_name=n) for n in ("b", "a", "b", "")]
    watch = slices_watch(units)
    assert watch is not None
    assert watch.selector == "kubernetes.io/service-name in (a,b)"
    assert slices_watch([kit.unit()]) is None
