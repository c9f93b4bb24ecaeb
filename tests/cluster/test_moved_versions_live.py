"""API versions and groups that move under an object, and ownership that is wiped: fields that Git drops still go."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from cluster_kit.live_unit import LiveUnit, managers
from controlplane_kit.client import APPLY, MERGE, ApiFailure, ApiServer

from gitops.model.identity import GroupVersionKind
from gitops.reconcile.outcomes import SyncState

pytestmark = pytest.mark.controlplane

JSON_PATCH = "application/json-patch+json"
Json = dict[str, Any]

KEYED = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
ITEM = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": {"type": "string"}}}
FIELDS: Json = {
    **{name: {"type": "string"} for name in "abc"},
    "env": {"type": "array", "items": ITEM, **KEYED},
}


def definition(group: str, *versions: str, fields: Json = FIELDS, conversion: Json | None = None) -> Json:
    """Served at these versions, stored at the last."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}
    served = [
        {"name": v, "served": True, "storage": v == versions[-1], "schema": {"openAPIV3Schema": schema}}
        for v in versions
    ]
    names = {"kind": "Thing", "plural": "things", "singular": "thing", "listKind": "ThingList"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"things.{group}"},
        "spec": {
            "group": group,
            "names": names,
            "scope": "Namespaced",
            "versions": served,
            "conversion": conversion or {"strategy": "None"},
        },
    }


class Things:
    """A definition of its own for each test."""

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self.api, self.namespace = api, namespace
        self.group = f"{namespace}.gitops.example"

    def serve(self, *versions: str, fields: Json = FIELDS, conversion: Json | None = None) -> None:
        self.api.create_crd_objects([definition(self.group, *versions, fields=fields, conversion=conversion)])

    def drop(self, version: str) -> None:
        """Until nothing answers at that version any more."""
        self.api.wait(lambda: self.api.get(self.path(version)) is None, f"{version} to be gone")

    def path(self, version: str) -> str:
        return f"/apis/{self.group}/{version}/namespaces/{self.namespace}/things/one"

    def get(self, version: str = "v1") -> Json:
        found: Json = self.api.get(self.path(version))
        return found

    def body(self, version: str = "v1", **spec: Any) -> Json:
        return {
            "apiVersion": f"{self.group}/{version}",
            "kind": "Thing",
            "metadata": {"name": "one", "namespace": self.namespace},
            "spec": spec,
        }

    def touch(self, patch: Json, *, version: str = "v1", manager: str = "operator") -> None:
        query = {"fieldManager": manager}
        self.api.request("PATCH", self.path(version), patch, content_type=MERGE, query=query)


@pytest.fixture
def things(shared_api: ApiServer, namespace: str) -> Things:
    return Things(shared_api, namespace)


def ours(live: Json) -> Json:
    (entry,) = (e for e in live["metadata"]["managedFields"] if e["operation"] == "Apply")
    assert isinstance(entry, dict)
    return entry


@pytest.mark.parametrize("seen", [False, True])
async def test_git_moves_to_another_version_and_nothing_is_left_behind(
    live_unit: LiveUnit, things: Things, seen: bool
) -> None:
    things.serve("v1alpha1", "v1beta1", "v1")
    env = [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]
    await live_unit.settled(things.body("v1alpha1", a="1", b="2", env=env))
    if seen:
        assert (await live_unit.see()).applied == 0
    uid = things.get()["metadata"]["uid"]
    await live_unit.settled(things.body("v1beta1", a="1", env=env[:1]))
    live = things.get()
    assert (live["metadata"]["uid"], live["spec"]) == (uid, {"a": "1", "env": env[:1]})
    assert ours(live)["apiVersion"] == f"{things.group}/v1beta1"
    assert (await live_unit.see()).applied == 0, "and then it is at rest"


async def test_18_git_moves_after_its_old_version_is_gone(live_unit: LiveUnit, things: Things) -> None:
    """Our entry would be dropped by the next write of anybody, ours too, and what it had would be nobody's."""
    things.serve("v1alpha1", "v1")
    await live_unit.settled(things.body("v1alpha1", a="1", b="2"))
    things.serve("v1")
    things.drop("v1alpha1")
    live_unit.applier.discovery.invalidate()
    assert ours(things.get())["apiVersion"] == f"{things.group}/v1alpha1"
    await live_unit.settled(things.body("v1", a="1"))
    assert things.get()["spec"] == {"a": "1"}
    assert managers(things.get()) == {(live_unit.state.manager, "Apply")}


async def test_7_an_entry_of_somebody_else_is_at_a_version_that_is_gone(live_unit: LiveUnit, things: Things) -> None:
    """The server refuses every apply of ours as long as it is there."""
    things.serve("v1alpha1", "v1")
    await live_unit.settled(things.body("v1", a="1", b="2"))
    theirs = {**things.body("v1alpha1", c="3")}
    query = {"fieldManager": "operator"}
    things.api.request("PATCH", things.path("v1alpha1"), theirs, content_type=APPLY, query=query)
    things.serve("v1")
    things.drop("v1alpha1")
    live_unit.applier.discovery.invalidate()
    await live_unit.settled(things.body("v1", a="1"))
    live = things.get()
    assert live["spec"] == {"a": "1", "c": "3"}
    assert managers(live) == {(live_unit.state.manager, "Apply"), ("operator", "Apply")}


async def test_7_a_version_is_gone_and_somebody_writes(live_unit: LiveUnit, things: Things) -> None:
    """All managedFields are wiped by that. What is declared is ours again, and goes when Git drops it later."""
    things.serve("v1alpha1", "v1")
    await live_unit.settled(things.body("v1alpha1", a="1", b="2", c="3"))
    things.serve("v1")
    things.drop("v1alpha1")
    live_unit.applier.discovery.invalidate()
    things.touch({"metadata": {"annotations": {"operator.example/x": "1"}}})
    await live_unit.declare(things.body("v1", a="1", b="2", c="3"))
    assert (await live_unit.see()).state is SyncState.SYNCED
    assert managers(things.get()) <= {(live_unit.state.manager, "Apply"), ("operator", "Update")}
    await live_unit.settled(things.body("v1", a="1"))
    live = things.get()
    assert live["spec"] == {"a": "1"}
    assert live["metadata"]["annotations"] == {"operator.example/x": "1"}


@pytest.mark.parametrize("wipe", [[], [{}], None], ids=str)
async def test_7_managed_fields_are_wiped_by_a_client(
    live_unit: LiveUnit, things: Things, wipe: list[Json] | None
) -> None:
    things.serve("v1")
    await live_unit.settled(things.body(a="1", b="2"))
    live = things.get()
    if wipe is None:
        edit = [{"op": "remove", "path": "/metadata/managedFields"}]
        things.api.request("PATCH", things.path("v1"), edit, content_type=JSON_PATCH)
    else:
        live["metadata"]["managedFields"] = wipe
        things.api.request("PUT", things.path("v1"), live, query={"fieldManager": "x"})
    wiped = not things.get()["metadata"].get("managedFields")
    outcome = await live_unit.see()
    assert outcome.state is SyncState.SYNCED
    assert outcome.applied == (1 if wiped else 0), "an update without any keeps what is stored"
    assert managers(things.get()) == {(live_unit.state.manager, "Apply")}
    await live_unit.settled(things.body(a="1"))
    assert things.get()["spec"] == {"a": "1"}


@pytest.mark.parametrize("way", ["to atomic", "to keyed"])
async def test_8_a_list_is_re_keyed(live_unit: LiveUnit, things: Things, way: str) -> None:
    """The entry has other paths from the next write on; values are the same, and that is no drift."""
    atomic = {**FIELDS, "env": {"type": "array", "items": ITEM, "x-kubernetes-list-type": "atomic"}}
    before, after = (FIELDS, atomic) if way == "to atomic" else (atomic, FIELDS)
    things.serve("v1", fields=before)
    env = [{"name": "x", "value": "1"}, {"name": "y", "value": "2"}]
    await live_unit.settled(things.body(a="1", env=env))
    things.serve("v1", fields=after)

    def used() -> bool:
        """A dry run that would be refused by one of the two schemas tells which is in use."""
        twice = things.body(env=[{"name": "x"}, {"name": "x"}])
        query = {"fieldManager": "x", "force": "true", "dryRun": "All"}
        try:
            things.api.request("PATCH", things.path("v1"), twice, content_type=APPLY, query=query)
        except Exception:
            return way == "to keyed"
        return way == "to atomic"

    things.api.wait(used, "the new schema to be used")
    things.touch({"metadata": {"labels": {"theirs": "x"}}})
    assert (await live_unit.see()).state is SyncState.SYNCED
    assert (await live_unit.see()).applied == 0
    assert live_unit.drifts() == []
    await live_unit.settled(things.body(a="1", b="2", env=env))  # from our next apply on the entry has the new paths
    await live_unit.settled(things.body(a="1", env=env[:1]))
    assert things.get()["spec"] == {"a": "1", "env": env[:1]}
    await live_unit.settled(things.body(a="1"))
    assert things.get()["spec"] == {"a": "1"}


async def test_18_a_field_leaves_the_schema(live_unit: LiveUnit, things: Things) -> None:
    things.serve("v1")
    await live_unit.settled(things.body(a="1", b="2"))
    await live_unit.see()
    things.serve("v1", fields={name: schema for name, schema in FIELDS.items() if name != "b"})
    things.api.wait(lambda: "b" not in things.get()["spec"], "the field to disappear")
    outcome = await live_unit.see()
    assert outcome.state is SyncState.REFUSED
    assert "b" in outcome.sentence
    await live_unit.settled(things.body(a="1"))
    assert things.get()["spec"] == {"a": "1"}


async def test_19_drift_is_read_at_the_version_that_was_applied(live_unit: LiveUnit, things: Things) -> None:
    things.serve("v1alpha1", "v1")
    await live_unit.settled(things.body("v1alpha1", a="1", b="2"))
    assert live_unit.state.kinds() == {GroupVersionKind(things.group, "v1alpha1", "Thing")}, "what is watched"
    things.touch({"spec": {"a": "edited"}}, version="v1", manager="kubectl-edit")
    outcome = await live_unit.see()
    assert (outcome.state, outcome.repaired) == (SyncState.SYNCED, 1)
    assert things.get("v1alpha1")["spec"] == {"a": "1", "b": "2"}
    (told,) = live_unit.drifts()
    assert "kubectl-edit" in told


async def test_37_at_the_version_that_is_stored_a_dead_conversion_webhook_is_not_met(
    live_unit: LiveUnit, things: Things
) -> None:
    """At another it is waited for, and then nothing was lost."""
    client = {"service": {"name": "gone", "namespace": things.namespace}}
    dead = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    things.serve("v1alpha1", "v1", conversion=dead)
    await live_unit.settled(things.body("v1", a="1"))
    things.touch({"spec": {"a": "edited"}})
    assert (await live_unit.see()).repaired == 1
    outcome = await live_unit.declare(things.body("v1alpha1", a="2"))
    assert outcome.state is SyncState.RETRYING, outcome
    assert outcome.retry_after is not None
    assert things.get()["spec"] == {"a": "1"}
    things.serve("v1alpha1", "v1")
    things.api.wait(lambda: _answers(things, "v1alpha1"), "the conversion to work")
    assert (await live_unit.work()).state is SyncState.SYNCED
    assert things.get()["spec"] == {"a": "2"}


def _answers(things: Things, version: str) -> bool:
    try:
        return bool(things.get(version))
    except ApiFailure:
        return False


async def test_an_object_of_kubectl_at_other_versions_is_adopted(live_unit: LiveUnit, things: Things) -> None:
    """What each of its entries had and Git has not goes, also at a version that is gone."""
    things.serve("v0", "v1alpha1", "v1")
    for version, client, spec in (
        ("v0", "kubectl-create", {"a": "1", "b": "1"}),
        ("v1alpha1", "kubectl-replace", {"c": "1"}),
        ("v1", "kubectl-client-side-apply", {"env": [{"name": "x"}]}),
    ):
        query = {"fieldManager": client, "force": "true"}
        things.api.request("PATCH", things.path(version), things.body(version, **spec), content_type=APPLY, query=query)
    assert set(things.get()["spec"]) == {"a", "b", "c", "env"}
    things.serve("v1alpha1", "v1")
    things.drop("v0")
    live_unit.applier.discovery.invalidate()
    outcome = await live_unit.declare(things.body("v1", a="1"))
    live = things.get()
    assert outcome.state is SyncState.SYNCED, outcome
    assert live["spec"] == {"a": "1"}
    assert managers(live) == {(live_unit.state.manager, "Apply")}


# -- another group ---------------------------------------------------------------------------------------------------


async def test_an_object_under_another_group_is_renamed_and_not_deleted(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    """core/v1 and events.k8s.io/v1 serve the same Events, as extensions and networking.k8s.io once did Ingresses."""
    about = {"kind": "ConfigMap", "name": "x", "namespace": namespace}
    shared = {
        "metadata": {"name": "one", "namespace": namespace},
        "kind": "Event",
        "reason": "Tested",
        "type": "Normal",
        "action": "Test",
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "reportingInstance": "i",
    }
    old = {**shared, "apiVersion": "v1", "involvedObject": about, "message": "m", "reportingComponent": "a.b/c"}
    new = {**shared, "apiVersion": "events.k8s.io/v1", "regarding": about, "note": "m", "reportingController": "a.b/c"}
    await live_unit.settled(copy.deepcopy(old))
    path = f"/api/v1/namespaces/{namespace}/events/one"
    uid = shared_api.get(path)["metadata"]["uid"]
    outcome = await live_unit.declare(copy.deepcopy(new))
    assert (outcome.state, outcome.pruned) == (SyncState.SYNCED, 0), outcome
    assert shared_api.get(path)["metadata"]["uid"] == uid
    assert [m.ref.group for m in live_unit.state.parents[live_unit.key].members] == ["events.k8s.io"]
    await live_unit.settled()
    assert shared_api.get(path) is None, "and under the new name it goes when Git drops it"
