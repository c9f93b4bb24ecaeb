"""What tests of gitops/reconcile share: objects as an API server keeps them, and a cluster and parents in memory that
write down every call. Nothing here decides anything; faults are put in by the tests.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import json
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest

from gitops.cluster import adopting, fields
from gitops.cluster.applying import ApplyOutcome, ApplyResult
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.namespaces import Contents
from gitops.cluster.objects import DeleteOutcome, DeleteResult, Listing
from gitops.manifests.canonical import canonical_json, digest
from gitops.model.findings import Origin
from gitops.model.identity import (
    ClusterName,
    Commit,
    GroupVersionKind,
    ObjectRef,
    ReconcilerName,
    UnitKey,
    WorkloadKind,
)
from gitops.model.kinds import DEFINITION
from gitops.overlays.provenance import Provenance
from gitops.plan.parents import Member, ParentRecord, applyset_id, parent_name
from gitops.plan.pruning import Consent
from gitops.plan.units import PART_OF_LABEL, PLAIN, RECONCILER_LABEL, DesiredObject, Handling, Stage, Unit
from gitops.policy.registry import OperatorRegistry
from gitops.readiness.mapping import Mappings
from gitops.reconcile.context import Context
from gitops.reconcile.options import EngineOptions
from gitops.reconcile.pruning import Pruner
from gitops.reconcile.secret_sources import SecretSources
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import Assignment, ClusterState, ObjectRecord
from gitops.reconcile.terminating import TerminatingNamespaces
from gitops.reconcile.unit_work import UnitWork

RECONCILER = ReconcilerName("main")
MANAGER = "gitops-main"
CLUSTER = ClusterName("a")
KEY = UnitKey(WorkloadKind.BUNDLE, "base", "", CLUSTER)
WALL = 1_800_000_000.0

API_VERSIONS = {
    "Deployment": "apps/v1",
    "DynamoGraphDeployment": "nvidia.com/v1beta1",
    "HorizontalPodAutoscaler": "autoscaling/v2",
    "NIMCache": "apps.nvidia.com/v1alpha1",
    "Gadget": "test.example/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
}
CLUSTER_SCOPED = {"Namespace", "CustomResourceDefinition"}
SERVER_METADATA = ("uid", "resourceVersion", "generation", "managedFields", "deletionTimestamp", "finalizers")

Json = dict[str, Any]


def tree_of(value: Mapping[str, Any]) -> Json:
    """A fieldsV1 tree that owns exactly these fields; lists are atomic."""
    return {
        f"f:{k}": tree_of(v) if isinstance(v, dict) and v else {}
        for k, v in value.items()
        if k not in ("apiVersion", "kind", "name", "namespace", *SERVER_METADATA)
    }


def entry(body: Mapping[str, Any], manager: str = MANAGER, **more: Any) -> Json:
    """A managedFields entry in which `manager` owns what `body` declares."""
    operation = "Apply" if manager.startswith("gitops-") else "Update"
    return {
        "manager": manager,
        "operation": operation,
        "apiVersion": body["apiVersion"],
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": tree_of(body),
        **more,
    }


@dataclasses.dataclass
class Clock:
    """Both clocks of a Context; moved by hand."""

    now: float = WALL

    def __call__(self) -> float:
        return self.now


class Kit:
    """Builders. Objects are ConfigMaps in namespace `shop` unless told otherwise."""

    manager = MANAGER
    reconciler = RECONCILER
    cluster_name = CLUSTER
    key = KEY
    wall = WALL
    entry = staticmethod(entry)

    def other_key(self, name: str = "other", *, cluster: str = CLUSTER) -> UnitKey:
        return UnitKey(WorkloadKind.BUNDLE, name, "", ClusterName(cluster))

    def ref(self, name: str, kind: str = "ConfigMap", namespace: str = "shop") -> ObjectRef:
        group = GroupVersionKind.parse(API_VERSIONS.get(kind, "v1"), kind).group
        return ObjectRef(group, kind, "" if kind in CLUSTER_SCOPED else namespace, name)

    def body(self, name: str, kind: str = "ConfigMap", *, key: UnitKey = KEY, namespace: str = "shop", **parts: Any):
        """The payload of an apply, with our marks."""
        labels = {RECONCILER_LABEL: RECONCILER, PART_OF_LABEL: applyset_id(parent_name(key))}
        metadata: Json = {"name": name, "labels": labels}
        if kind not in CLUSTER_SCOPED:
            metadata["namespace"] = namespace
        return {"apiVersion": API_VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata, **parts}

    def desired(
        self,
        name: str,
        kind: str = "ConfigMap",
        *,
        key: UnitKey = KEY,
        namespace: str = "shop",
        stage: Stage = Stage.CONFIG,
        component: int = 0,
        depends_on: tuple[ObjectRef, ...] = (),
        handling: Handling = PLAIN,
        **parts: Any,
    ) -> DesiredObject:
        body = self.body(name, kind, key=key, namespace=namespace, **(parts or {"data": {"level": "info"}}))
        gvk = GroupVersionKind.parse(body["apiVersion"], kind)
        origin = Origin(f"bundles/{key.name}/{name}.yaml", 1)
        payload = canonical_json(body)
        return DesiredObject(
            self.ref(name, kind, namespace),
            gvk,
            payload,
            digest(payload),
            origin,
            Provenance.of_origin(origin),
            Stage.NAMESPACE if kind == "Namespace" else stage,
            component,
            depends_on,
            handling=handling,
        )

    def live(
        self,
        desired: DesiredObject,
        *others: Json,
        uid: str = "",
        version: str = "10",
        owned: bool = True,
        **parts: Any,
    ) -> Json:
        """The object as it is on the cluster after our apply of it. `parts` replace declared ones, without our
        ownership moving; `others` are further managedFields entries."""
        body = desired.body
        ours = [entry(body)] if owned else []
        found = copy.deepcopy({**body, **parts})
        found["metadata"] |= {
            "uid": uid or f"uid-{desired.ref.name}",
            "resourceVersion": version,
            "generation": 1,
            "managedFields": [*ours, *others],
        }
        return found

    def edited(self, desired: DesiredObject, *, by: str = "kubectl-edit", version: str = "11", **data: str) -> Json:
        """The live ConfigMap after somebody changed keys of it: the values are theirs now."""
        body = desired.body
        ours = copy.deepcopy(body)
        for name in data:
            ours["data"].pop(name, None)
        theirs = {"apiVersion": body["apiVersion"], "kind": body["kind"], "data": data}
        found = self.live(desired, entry(theirs, by), version=version, data={**body["data"], **data})
        found["metadata"]["managedFields"][0] = entry(ours)
        return found

    def values(self, desired: DesiredObject, live: Json) -> bytes:
        """The digest of its owned values."""
        return fields.values_digest(desired.body, live, MANAGER)

    def unit(self, *objects: DesiredObject, key: UnitKey = KEY, content: str = "content-1", **more: Any) -> Unit:
        return Unit(key, content, Commit(more.pop("commit", "c1")), more.pop("namespace", ""), objects, **more)

    def record(self, *objects: DesiredObject | ObjectRef, key: UnitKey = KEY, content: str = "content-1", **more: Any):
        """A stored parent that has these objects, with their uids."""
        refs = [o.ref if isinstance(o, DesiredObject) else o for o in objects]
        members = tuple(
            sorted(
                Member(r, GroupVersionKind.parse(API_VERSIONS.get(r.kind, "v1"), r.kind).version, f"uid-{r.name}")
                for r in refs
            )
        )
        more = {"commit": Commit("c1"), "resource_version": "100", **more}
        return ParentRecord(key, members, content, **more)

    def assignment(
        self, *units: Unit, commit: str = "c1", complete: bool = True, held: Iterable[Any] = ()
    ) -> Assignment:
        return Assignment(Commit(commit), {u.key: u for u in units}, frozenset(held), complete, Consent())

    def state(self, *units: Unit, records: Iterable[ParentRecord] = (), **more: Any) -> ClusterState:
        state = ClusterState(CLUSTER, RECONCILER)
        state.parents = {r.unit: r for r in records}
        state.assign(self.assignment(*units, **more))
        return state

    def settled(self, state: ClusterState, desired: DesiredObject) -> ObjectRecord:
        """As after our apply of the object was answered: its record is the baseline."""
        live = self.live(desired)
        print_ = fields.fingerprint(desired.body, live, MANAGER)
        record = state.record(desired)
        record.uid, record.resource_version, record.generation = print_.uid, print_.resource_version, 1
        record.entry, record.values = print_.entry_digest, print_.values_digest
        record.applied = record.last_desired = desired.digest
        return record

    def error(self, cls: ErrorClass, message: str = "no", **more: Any) -> ApiError:
        return ApiError(cls, message=message, **more)


class _InNameOf:
    """A FakeCluster whose calls are noted as those of an account."""

    def __init__(self, cluster: FakeCluster, account: str) -> None:
        self._cluster, self._account = cluster, account

    def in_name_of(self, account: str) -> Any:
        return self._cluster.in_name_of(account)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._cluster, name)
        if not inspect.iscoroutinefunction(found):
            return found

        async def call(*args: Any, **kwargs: Any) -> Any:
            self._cluster.acting = self._account
            return await found(*args, **kwargs)

        return call


class FakeCluster:
    """What an Applier offers, over a dictionary. `calls` are (verb, name), in order; `faults` are (verb, name) →
    ApiError; `before` is called with (verb, name) before anything happens, as a test's way in between."""

    manager = MANAGER

    def __init__(self) -> None:
        self.objects: dict[ObjectRef, Json] = {}
        self.calls: list[tuple[str, str]] = []
        self.faults: dict[tuple[str, str], ApiError] = {}
        self.before: Callable[[str, str], None] = lambda verb, name: None
        self.propagations: dict[str, str] = {}
        self.places: dict[str, str | None] = {}  # name → namespace that its dry run was sent to
        self.admit: Callable[[Json], None] = lambda live: None
        self.finalizers: tuple[str, ...] = ()
        self.served: list[GroupVersionKind] | None = None  # None: whatever is asked for
        self.discovery = self
        self.definitions: list[Json] = []
        self.services: list[Json] = []
        self.acting = ""  # the account of the next call
        self.named: list[tuple[str, str, str]] = []  # (account, verb, name) of calls in another name
        self._version = 1000

    def in_name_of(self, account: str) -> Any:
        return _InNameOf(self, account) if account else self

    # discovery
    def invalidate(self) -> None:
        """What is served is always asked."""

    def known(self) -> Mapping[GroupVersionKind, Any]:
        return dict.fromkeys(self.served or (), None)

    def _called(self, verb: str, ref: ObjectRef, gvk: GroupVersionKind | None = None) -> ApiError | None:
        self.before(verb, ref.name)
        self.calls.append((verb, ref.name))
        if self.acting:
            self.named.append((self.acting, verb, ref.name))
            self.acting = ""
        if gvk is not None and self.served is not None and gvk not in self.served:
            return ApiError(ErrorClass.WAITING, 404, "NotServed", "not served", waits_for=f"kind {gvk.group_kind}")
        return self.faults.get((verb, ref.name))

    def verbs(self, *verbs: str) -> list[str]:
        """Names in the order of these calls."""
        return [name for verb, name in self.calls if verb in verbs]

    async def get(self, gvk: GroupVersionKind, ref: ObjectRef) -> Json | ApiError | None:
        return self._called("get", ref, gvk) or copy.deepcopy(self.objects.get(ref))

    async def list_objects(self, gvk: GroupVersionKind, *, page_size: int = 500) -> Listing | ApiError:
        """Definitions and API services are all that is ever listed whole."""
        return Listing(tuple(self.definitions if gvk == DEFINITION else self.services), "1")

    async def list_metadata(self, gvk: GroupVersionKind) -> Listing | ApiError:
        found = [copy.deepcopy(live) for ref, live in self.objects.items() if ref.group_kind == gvk.group_kind]
        return self._called("list", ObjectRef("", "", "", gvk.kind)) or Listing(tuple(found), "1")

    async def apply(
        self,
        obj: DesiredObject,
        *,
        dry_run: bool = False,
        namespace: str | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
    ) -> ApplyOutcome:
        verb = "dry-run" if dry_run else "apply"
        error = self._called(verb, obj.ref, obj.gvk)
        before = self.objects.get(obj.ref)
        if dry_run:
            self.places[obj.ref.name] = namespace
        if error is None and uid and (before is None or before["metadata"]["uid"] != uid):
            error = ApiError(ErrorClass.STALE, 409, "Conflict", "uid mismatch")
        if error is None and resource_version and before and before["metadata"]["resourceVersion"] != resource_version:
            error = ApiError(ErrorClass.STALE, 409, "Conflict", "resourceVersion mismatch")
        if error is not None:
            return ApplyOutcome(ref=obj.ref, gvk=obj.gvk, result=ApplyResult.ERROR, error=error, dry_run=dry_run)
        result = ApplyResult.CREATED if before is None or namespace else ApplyResult.CONFIGURED
        if dry_run:
            return ApplyOutcome(ref=obj.ref, gvk=obj.gvk, result=result, dry_run=True)
        live = self._merged(obj, before)
        self.objects[obj.ref] = live
        comparison = fields.compare(obj.body, live, MANAGER)
        print_ = fields.fingerprint(obj.body, live, MANAGER)
        return ApplyOutcome(
            ref=obj.ref,
            gvk=obj.gvk,
            result=result,
            uid=print_.uid,
            resource_version=print_.resource_version,
            generation=print_.generation or 0,
            entry_digest=print_.entry_digest,
            values_digest=print_.values_digest,
            overridden=tuple(d.path for d in comparison.differences),
            live=copy.deepcopy(live),
        )

    def _merged(self, obj: DesiredObject, before: Json | None) -> Json:
        self._version += 1
        body = obj.body
        live = copy.deepcopy(body)
        old = before["metadata"] if before else {"uid": f"uid-{obj.ref.name}", "generation": 0, "managedFields": []}
        live["metadata"] |= {
            "uid": old["uid"],
            "resourceVersion": str(self._version),
            "generation": old.get("generation", 0) + 1,
            "managedFields": [entry(body), *(e for e in old["managedFields"] if e["operation"] != "Apply")],
        }
        self.admit(live)
        return live

    async def adopt(
        self, obj: DesiredObject, live: Json, *, tools: Iterable[Any] = (), applied: bool = False
    ) -> ApplyOutcome:
        operations = adopting.take_over(
            live, manager=MANAGER, payload=obj.body, tools_named=tuple(tools), applied=applied
        )
        if not operations:
            return ApplyOutcome(ref=obj.ref, gvk=obj.gvk, result=ApplyResult.UNCHANGED, live=live)
        error = self._called("adopt", obj.ref)
        result = ApplyResult.ERROR if error else ApplyResult.CONFIGURED
        if error is None:
            self._version += 1
            live = copy.deepcopy(self.objects[obj.ref])
            metadata = live["metadata"]
            metadata["resourceVersion"] = str(self._version)
            for operation in operations[1:]:
                _, _, field, *key = operation["path"].split("/")
                if operation["op"] == "remove":
                    del metadata[field][key[0].replace("~1", "/")]
                else:
                    metadata[field] = operation["value"]
            self.objects[obj.ref] = live
        return ApplyOutcome(ref=obj.ref, gvk=obj.gvk, result=result, error=error, live=copy.deepcopy(live))

    async def start(self, obj: DesiredObject, trigger: Any, *, uid: str) -> ApplyOutcome:
        error = self._called("start", obj.ref)
        before = self.objects.get(obj.ref)
        if error is None and (before is None or before["metadata"]["uid"] != uid):
            error = ApiError(ErrorClass.STALE, 409, "Conflict", "uid mismatch")
        if error is None and before is not None:
            holder = before
            for part in trigger.path[:-1]:
                holder = holder.setdefault(part, {})
            holder[trigger.path[-1]] = json.loads(trigger.value)
        return ApplyOutcome(
            ref=obj.ref, gvk=obj.gvk, result=ApplyResult.ERROR if error else ApplyResult.CONFIGURED, error=error
        )

    async def forget_before(self, outcome: ApplyOutcome) -> ApplyOutcome:
        return outcome

    async def json_patch(self, gvk: GroupVersionKind, ref: ObjectRef, operations: list[Json], *, manager: str) -> Any:
        error = self._called("patch", ref)
        if error is not None:
            return error
        metadata = self.objects[ref]["metadata"]
        for operation in operations:
            if operation["op"] == "test" and metadata["resourceVersion"] != operation["value"]:
                return ApiError(ErrorClass.STALE, 422, "Invalid", "the test failed")
            if operation["op"] == "replace" and operation["path"].endswith("/fieldsV1"):
                metadata["managedFields"][int(operation["path"].split("/")[3])]["fieldsV1"] = operation["value"]
                self._version += 1
                metadata["resourceVersion"] = str(self._version)
            if operation["op"] == "remove":
                _, _, field, key = operation["path"].split("/")
                del metadata[field][key.replace("~1", "/")]
        return copy.deepcopy(self.objects[ref])

    async def delete(
        self,
        gvk: GroupVersionKind,
        ref: ObjectRef,
        *,
        uid: str,
        resource_version: str,
        propagation: str = "Background",
        wanted: Callable[[], bool] | None = None,
    ) -> DeleteOutcome:
        error = self._called("delete", ref)
        self.propagations[ref.name] = propagation
        if error is None and wanted is not None and not wanted():
            error = ApiError(ErrorClass.STALE, message="not wanted any more")
        if error is not None:
            return DeleteOutcome(ref, DeleteResult.ERROR, error=error)
        if self.finalizers:
            self.objects[ref]["metadata"] |= {"deletionTimestamp": "now", "finalizers": list(self.finalizers)}
            return DeleteOutcome(ref, DeleteResult.DELETING, self.finalizers)
        live = self.objects.pop(ref, None)
        return DeleteOutcome(ref, DeleteResult.DELETED if live else DeleteResult.ABSENT)


class FakeParents:
    """What a ParentStore offers; its writes stand among the calls of the cluster as (verb, unit name)."""

    def __init__(self, cluster: FakeCluster) -> None:
        self.stored: dict[UnitKey, ParentRecord] = {}
        self.writes: list[ParentRecord] = []
        self.fault: ApiError | None = None
        self._cluster = cluster

    async def load(self, key: UnitKey) -> ParentRecord | None:
        self._cluster.calls.append(("load parent", key.name))
        return self.stored.get(key)

    async def write(self, record: ParentRecord) -> ParentRecord | ApiError:
        self._cluster.before("parent", record.unit.name)
        self._cluster.calls.append(("parent", record.unit.name))
        if self.fault is not None:
            return self.fault
        self.writes.append(record)
        version = str(int(record.resource_version or 0) + 1)
        self.stored[record.unit] = dataclasses.replace(record, resource_version=version)
        return self.stored[record.unit]

    async def delete(self, record: ParentRecord) -> ApiError | None:
        self._cluster.before("delete parent", record.unit.name)
        self._cluster.calls.append(("delete parent", record.unit.name))
        if self.fault is not None:
            return self.fault
        self.stored.pop(record.unit, None)
        return None


class FakeContents:
    """What NamespaceContents offers: `found` is the answer for every namespace."""

    def __init__(self) -> None:
        self.found: Contents | ApiError = Contents()

    async def foreign(self, namespace: str) -> Contents | ApiError:
        return self.found

    async def held_by(self, live: Json) -> str:
        return "held by test/hold on ConfigMap shop/stuck"


@pytest.fixture
def kit() -> Kit:
    return Kit()


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def parents(cluster: FakeCluster) -> FakeParents:
    return FakeParents(cluster)


@pytest.fixture
def contents() -> FakeContents:
    return FakeContents()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def mappings() -> Mappings:
    return Mappings.shipped()


@pytest.fixture
def context(clock: Clock, mappings: Mappings) -> Context:
    return Context(
        options=EngineOptions(identity="me"),
        registry=OperatorRegistry.shipped(),
        mappings=mappings,
        clock=clock,
        wall=clock,
        rng=random.Random(1),
    )


def unit_work(
    state: ClusterState,
    *,
    applier: Any,
    parents: Any,
    contents: Any,
    context: Context,
    sightings: Sightings | None = None,
    may_write: Callable[[], bool] = lambda: True,
) -> UnitWork:
    """A unit's work over the fakes."""
    return UnitWork(
        state,
        applier=applier,
        parents=parents,
        pruner=Pruner(contents, reconciler=state.reconciler, context=context, may_write=may_write),
        context=context,
        sightings=sightings or Sightings(state, context, look=lambda key, urgent: None, touched=lambda key: None),
        secrets=SecretSources(state, look=lambda key: None),
        terminating=TerminatingNamespaces(state, contents),
        may_write=may_write,
    )


@pytest.fixture
def bench(kit: Kit, cluster: FakeCluster, parents: Any, contents: FakeContents, context: Context) -> Any:
    """Makes attempts at units (tests/reconcile/unit_bench.py)."""
    from tests.reconcile.unit_bench import Bench

    return Bench(kit, cluster, parents, contents, context)
