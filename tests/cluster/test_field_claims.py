"""Claims to fields on a real API server: what is others', letting go of it, and what the server makes of it. Numbers in
names are items of the facts about server-side apply (ssa-live)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from controlplane_kit.client import APPLY, MERGE, ApiServer
from hypothesis import given
from hypothesis import strategies as st

from gitops.cluster import fields, managed_fields
from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.field_claims import FieldClaims, claims, claims_digest, kept_by_others, release
from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import Path
from gitops.model.findings import Origin
from gitops.model.identity import GroupKind, GroupVersionKind, ObjectRef
from gitops.model.ownership import OwnershipTable
from gitops.overlays.provenance import Provenance
from gitops.plan.sending import LeftOut, Why, as_sent
from gitops.plan.units import DesiredObject, Stage
from gitops.policy.ownership import Ownership

Desired = Callable[[dict[str, Any]], DesiredObject]
GADGETS = GroupKind("test.gitops.example", "Gadget")
REPLICAS: Path = ("spec", "components", 1, "replicas")

RULES = Ownership(
    [
        OwnershipTable.model_validate(
            {
                "apiVersion": "gitops/v1alpha1",
                "kind": "OwnershipTable",
                "metadata": {"name": "test"},
                "spec": {
                    "rules": [
                        {"id": "tuner", "managers": ["tuner"], "answer": "yield", "source": "a test"},
                        {"id": "typist", "managers": ["typist"], "answer": "ask", "source": "a test"},
                    ]
                },
            }
        )
    ]
)


def gadget(namespace: str, **spec: Any) -> dict[str, Any]:
    components = [
        {"name": "front", "replicas": 1, "image": "a", "limits": {"cpu": 1}},
        {"name": "decode", "replicas": 2, "image": "b"},
    ]
    return {
        "apiVersion": "test.gitops.example/v1",
        "kind": "Gadget",
        "metadata": {"name": "one", "namespace": namespace, "labels": {"gitops/reconciler": "test"}},
        "spec": {"title": "t", "tags": ["x"], "steps": ["1", "2"], "components": components, **spec},
    }


class Bench:
    """One gadget that we applied."""

    def __init__(self, applier: Applier, api: ApiServer, namespace: str, desired: Desired) -> None:
        self.applier, self.api, self.make = applier, api, desired
        self.body = gadget(namespace)
        self.desired = desired(self.body)
        self.path = f"/apis/test.gitops.example/v1/namespaces/{namespace}/gadgets/one"

    def live(self) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(self.path)
        return found

    def write(self, spec: dict[str, Any], manager: str) -> None:
        query = {"fieldManager": manager}
        self.api.request("PATCH", self.path, {"spec": spec}, content_type=MERGE, query=query)

    def apply(self, spec: dict[str, Any], manager: str) -> None:
        body = {key: value for key, value in self.body.items() if key != "metadata"}
        query = {"fieldManager": manager, "force": "true"}
        whole = {**body, "metadata": {"name": "one"}, "spec": spec}
        self.api.request("PATCH", self.path, whole, content_type=APPLY, query=query)

    def claims(self, *handed: tuple[Path, str], default: Any = "take") -> FieldClaims:
        manager = self.applier.manager
        return claims(self.body, self.live(), manager, table=RULES, default=default, scaled=False, handed=handed)

    async def let_go(self, found: FieldClaims) -> dict[str, Any] | ApiError | None:
        operations = release(self.body, self.live(), self.applier.manager, found.left_out)
        if operations is None:
            return None
        desired = self.desired
        return await self.applier.json_patch(desired.gvk, desired.ref, operations, manager=self.applier.manager)

    def replicas(self) -> Any:
        return next(c for c in self.live()["spec"]["components"] if c["name"] == "decode").get("replicas")


@pytest.fixture
async def bench(
    applier: Applier, shared_api: ApiServer, namespace: str, desired: Desired, gadgets: GroupVersionKind
) -> Bench:
    made = Bench(applier, shared_api, namespace, desired)
    assert (await applier.apply(made.desired)).error is None
    return made


async def test_27_a_field_that_its_only_owner_drops_is_reset(bench: Bench) -> None:
    """Why there is a release at all; an autoscaler that writes the same value does not change that."""
    bench.write({"components": bench.body["spec"]["components"]}, "tuner")
    without = as_sent(bench.desired, [LeftOut(REPLICAS, Why.HANDED_OVER)])
    await bench.applier.apply(without)
    assert bench.replicas() is None


async def test_28_letting_go_moves_nothing_and_the_field_is_then_left_out(bench: Bench) -> None:
    before = bench.live()
    found = bench.claims((REPLICAS, "the planner"))
    assert found == FieldClaims((LeftOut(REPLICAS, Why.HANDED_OVER, "the planner"),), held=True)
    after = await bench.let_go(found)
    assert isinstance(after, dict)
    assert (after["spec"], after["metadata"]["generation"]) == (before["spec"], 1)
    assert bench.claims((REPLICAS, "the planner")).held is False
    assert await bench.let_go(found) is None, "there is nothing more to let go of"
    sent = as_sent(bench.desired, found.left_out)
    assert fields.compare(sent.body, after, bench.applier.manager).in_sync
    applied = await bench.applier.apply(sent)
    assert (applied.generation, bench.replicas()) == (1, 2)
    bench.write({"components": [*bench.body["spec"]["components"][:1], {"name": "decode", "replicas": 7}]}, "planner")
    assert (await bench.applier.apply(sent)).error is None
    assert bench.replicas() == 7


async def test_28_a_release_of_an_object_that_moved_is_tried_again(bench: Bench) -> None:
    found, live = bench.claims((REPLICAS, "the planner")), bench.live()
    bench.write({"title": "other"}, "typist")
    operations = release(bench.body, live, bench.applier.manager, found.left_out)
    assert operations is not None
    desired = bench.desired
    answer = await bench.applier.json_patch(desired.gvk, desired.ref, operations, manager=bench.applier.manager)
    assert isinstance(answer, ApiError)
    assert (answer.status, answer.cls, answer.causes) == (422, ErrorClass.STALE, ())
    assert bench.replicas() == 2


async def test_29_leaves_are_left_out_never_an_item_its_key_or_our_marks(bench: Bench) -> None:
    """Another manager applies everything that we do; a rule gives it all of that."""
    bench.apply(bench.body["spec"], "tuner")
    found = bench.claims()
    paths = {each.path for each in found.left_out}
    assert ("spec", "components", 0, "replicas") in paths
    assert ("spec", "components", 0, "limits", "cpu") in paths
    assert ("spec", "steps") in paths, "an atomic list is one field"
    assert not {p for p in paths if p[-1] == "name" or p in (("spec", "components"), ("spec", "components", 0))}
    assert not {p for p in paths if p[:2] == ("spec", "tags")}, "members of a set are items"
    assert found.held
    assert isinstance(await bench.let_go(found), dict)
    sent = as_sent(bench.desired, found.left_out)
    assert sent.body["spec"]["components"] == [{"name": "front"}, {"name": "decode"}]
    assert (await bench.applier.apply(sent)).error is None
    assert bench.live()["spec"]["components"] == bench.body["spec"]["components"]


async def test_27_what_is_yielded_is_ours_again_when_its_manager_gives_it_up(bench: Bench) -> None:
    bench.apply({"components": [{"name": "decode", "replicas": 9}]}, "tuner")
    assert bench.claims().left_out == (LeftOut(REPLICAS, Why.YIELDED, "tuner"),)
    bench.apply({}, "tuner")
    assert bench.claims() == FieldClaims()
    assert bench.replicas() is None


async def test_30_asked_about_only_while_the_values_differ(bench: Bench) -> None:
    bench.apply({"title": "t"}, "typist")
    assert bench.claims() == FieldClaims()
    bench.apply({"title": "other"}, "typist")
    assert bench.claims() == FieldClaims((LeftOut(("spec", "title"), Why.ASKED, "typist"),))


@pytest.mark.parametrize("default", ["take", "yield", "ask"])
async def test_fields_that_no_rule_is_about_follow_the_default(bench: Bench, default: str) -> None:
    bench.write({"title": "other"}, "somebody")
    left = {each.path: each.why for each in bench.claims(default=default).left_out}
    why = {"yield": Why.YIELDED, "ask": Why.ASKED}
    assert left == ({("spec", "title"): why[default]} if default in why else {})


async def test_the_digest_moves_with_what_decides_and_with_nothing_else(bench: Bench) -> None:
    def seen(*, handable: bool = False) -> tuple[bytes, bool]:
        manager = bench.applier.manager
        return claims_digest(bench.live(), manager, kind=GADGETS, table=RULES, default="take", handable=handable)

    assert seen() == (b"", False)
    handed = seen(handable=True)
    assert handed[0]
    bench.write({"free": {"a": 1}}, "somebody")
    assert (seen(), seen(handable=True)) == ((b"", False), handed)
    bench.write({"free": {"a": 2}}, "tuner")
    first, foreign = seen()
    assert (bool(first), foreign) == (True, True)
    bench.write({"title": "other"}, "tuner")
    assert seen()[0] != first


async def test_s15_what_others_own_of_a_dropped_block_is_named(bench: Bench) -> None:
    body = copy.deepcopy(bench.body)
    body["spec"]["free"] = {"hook": {"url": "x", "strategy": "y"}}
    assert (await bench.applier.apply(bench.make(body))).error is None
    bench.write({"free": {"hook": {"bundle": "z"}}}, "injector")
    manager = bench.applier.manager
    assert kept_by_others(body, bench.live(), manager) == []
    assert kept_by_others(bench.body, bench.live(), manager) == [("spec.free.hook.bundle", "injector")]


# -- a law -----------------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c"])
values = st.recursive(
    st.integers(0, 3),
    lambda inner: (
        st.dictionaries(names, inner, min_size=1, max_size=3)
        | st.dictionaries(names, inner, min_size=1, max_size=2).map(
            lambda d: [{"name": k, "v": v} for k, v in d.items()]
        )
    ),
    max_leaves=8,
)


def owned(value: Any) -> dict[str, Any]:
    """The fieldsV1 of our apply of a value; lists are keyed by name."""
    if isinstance(value, dict):
        return {f"f:{name}": owned(sub) for name, sub in value.items()}
    if isinstance(value, list):
        return {f'k:{{"name":"{item["name"]}"}}': {".": {}, **owned(item)} for item in value}
    return {}


def leaves(value: Any, path: Path = ()) -> list[Path]:
    if isinstance(value, dict):
        return [found for name, sub in value.items() if name != "name" for found in leaves(sub, (*path, name))]
    if isinstance(value, list):
        return [found for position, item in enumerate(value) for found in leaves(item, (*path, position))]
    return [path]


@given(st.dictionaries(names, values, min_size=1, max_size=3), st.data())
def test_after_a_release_we_own_exactly_what_is_then_sent(spec: dict[str, Any], data: st.DataObject) -> None:
    body = {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "labels": {"l": "1"}}, "spec": spec}
    tree = {"f:metadata": {"f:labels": {"f:l": {}}}, "f:spec": owned(spec)}
    entry = {"manager": "gitops-x", "operation": "Apply", "apiVersion": "v1", "fieldsV1": tree}
    live = {**body, "metadata": {**body["metadata"], "resourceVersion": "1", "managedFields": [entry]}}
    gone = data.draw(st.lists(st.sampled_from(leaves({"spec": spec})), max_size=3, unique=True))
    left = [LeftOut(path, Why.YIELDED) for path in gone]
    operations = release(body, live, "gitops-x", left)
    assert (operations is None) == (not gone)
    sent = as_sent(make(body), left).body
    kept = tree if operations is None else operations[1]["value"]
    expected = {"f:metadata": {"f:labels": {"f:l": {}}}, **({"f:spec": owned(sent["spec"])} if "spec" in sent else {})}
    assert set(managed_fields.members(kept)) == set(managed_fields.members(expected))


def make(body: dict[str, Any]) -> DesiredObject:
    origin, payload = Origin("x.yaml", 1), canonical_json(body)
    gvk, ref = GroupVersionKind("", "v1", "X"), ObjectRef("", "X", "", "x")
    return DesiredObject(ref, gvk, payload, digest(payload), origin, Provenance.of_origin(origin), Stage.CONFIG)
