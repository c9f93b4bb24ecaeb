"""A second run right after convergence writes nothing: every upstream sample and a corpus of built-in kinds.

All of it goes through one daemon on a cluster with controllers; each sample is a bundle of its own, so that one that is
refused stops no other. Refused by a rule of an operator or by its definition, it must say so; what the API server would
take nevertheless is applied twice past the engine.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit.client import APPLY, ApiFailure
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from differential_kit.samples import CURRENT, Body, read_definitions, read_samples
from fleet_kit.fixtures import OPTIONS, Fleet, StartFleet, namespace_yaml, until
from fleet_kit.scenes import DGX, bundle_files, repository

from gitops.cluster.applying import Applier, ApplyResult
from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.manifests.quantities import canonical_resources
from gitops.manifests.sanitizing import prepare_body
from gitops.model.findings import Severity
from gitops.model.identity import UnitKey
from gitops.plan.units import DesiredObject
from gitops.reconcile.cluster_worker import ClusterWorker
from gitops.reconcile.outcomes import SyncState
from gitops.reconcile.state import UnitState

pytestmark = [pytest.mark.controlplane, pytest.mark.upstream, pytest.mark.e2e]

BUILTIN = Path(__file__).parent / "data" / "builtin_kinds.yaml"
NAMESPACE = "samples"

ROLE_FILES = ("dynamo/rbac/manager-role.yaml", "dynamo/rbac/role.yaml", "nim/role.yaml", "nim/webhook-manifests.yaml")
RELEASE = "nim/bundle-clusterserviceversion.yaml"

UNDEFINED = {
    "LeaderWorkerSet.leaderworkerset.x-k8s.io/v1": "leaderworkersets",
    "Karta.run.ai/v1alpha1": "kartas",
    "ComputeDomain.resource.nvidia.com/v1beta1": "computedomains",
    "ClusterServiceVersion.operators.coreos.com/v1alpha1": "clusterserviceversions",
}
"""Kinds of samples whose definitions are not among the upstream files: the test makes open ones."""

LARGE = 50_000
"""Bytes of a definition that is installed by other means, as operators' charts do: reading it takes long, and what
large ones are to the engine is told in test_any_kind.py."""

EARLIER = "dgx-b"
EARLIER_GRAPH = ("nvidia.com/v1alpha1", "DynamoGraphDeployment")
"""Stored at another version now, and only the operator's webhook can convert it: it goes to a cluster with the
definitions of the time when it was the stored version."""

CLIENT_SIDE = "kustomize.config.k8s.io/"


def open_definition(kind: str, plural: str) -> Body:
    """A definition that takes anything."""
    name, _, rest = kind.partition(".")
    group, _, version = rest.partition("/")
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": name},
            "versions": [served],
        },
    }


def samples(upstream: Path) -> Iterable[tuple[str, Body]]:
    """Every upstream object under a name of its own in one namespace, with where it is from."""
    found = [(str(sample), sample.body) for sample in read_samples(upstream) if sample.body is not None]
    for file in (*ROLE_FILES, RELEASE):
        found += [(file, body) for body in yaml.safe_load_all((upstream / file).read_text()) if body]
    for number, (origin, body) in enumerate(found):
        if body["apiVersion"].startswith(CLIENT_SIDE):
            continue
        # Some images stand for "put yours here", and golden files have directives of their own test.
        body.get("metadata", {}).pop("$strict", None)
        text = json.dumps(body).replace(':my-tag"', ':1.2.0"').replace(':your-tag"', ':1.2.0"')
        body = json.loads(re.sub(r'"\$[a-z]+(?::[^"]*)?"', '"any"', text))
        metadata = body.setdefault("metadata", {})
        metadata |= {"name": f"s-{number}", "namespace": NAMESPACE}
        for hook in body.get("webhooks", ()):  # its server does not exist: it must not be asked
            hook["objectSelector"] = {"matchLabels": {"asks": "nobody"}}
        yield f"s-{number} {origin}", body


def current(upstream: Path) -> Iterable[Body]:
    return read_definitions(*(upstream / folder for folder in CURRENT))


def declared(upstream: Path) -> tuple[dict[str, str], dict[str, tuple[str, Body]]]:
    """The files of a repository, and the samples in it by the name of their bundle."""
    files = repository(DGX, EARLIER)
    files |= bundle_files("builtin", {"kinds.yaml": BUILTIN.read_text()}, clusters=(DGX,))
    files |= bundle_files("space", {"space.yaml": namespace_yaml(NAMESPACE)})
    definitions = [open_definition(kind, plural) for kind, plural in UNDEFINED.items()]
    definitions += [body for body in current(upstream) if len(json.dumps(body)) <= LARGE]
    for number, body in enumerate(definitions):
        files |= bundle_files(f"d-{number}", {"definition.json": json.dumps(body)}, clusters=(DGX,))
    known = {}
    for origin, body in samples(upstream):
        name = origin.partition(" ")[0]
        known[name] = (origin, body)
        where = EARLIER if (body["apiVersion"], body["kind"]) == EARLIER_GRAPH else DGX
        files |= bundle_files(name, {"sample.json": json.dumps(body)}, clusters=(where,))
    return files, known


async def converged(fleet: Fleet) -> list[ClusterWorker]:
    """Until every unit is as declared, and the controllers have made of it what they make."""
    await fleet.settled(timeout=280)
    workers = list(fleet.engine.workers.values())
    calls = -1

    def quiet() -> bool:
        nonlocal calls
        before, calls = calls, sum(len(fleet.calls(worker.name)) for worker in workers)
        return before == calls and not any(w.busy for w in workers) and not fleet.engine.status_pending

    await until(quiet, "nothing more to be done")
    return workers


def units(workers: Iterable[ClusterWorker]) -> dict[UnitKey, UnitState]:
    return {key: unit for worker in workers for key, unit in worker.state.units.items()}


def drifts(workers: Iterable[ClusterWorker]) -> list[str]:
    return [f"{key}: {drift}" for key, unit in units(workers).items() for drift in unit.drifts]


@pytest.mark.timeout(600)
async def test_a_second_run_writes_nothing(
    fleet: StartFleet, repo: Repository, planes: Callable[..., ControlPlane], shared: Path
) -> None:
    planes_by_name = {DGX: planes("kinds", controllers=True), EARLIER: planes("earlier")}
    planes_by_name[DGX].create_crd_objects(b for b in current(shared / "upstream") if len(json.dumps(b)) > LARGE)
    planes_by_name[EARLIER].create_crds(shared / "upstream/dynamo/crds-2026-04")
    files, known = declared(shared / "upstream")
    repo.commit(files, "every sample")
    first = await fleet(repo, planes_by_name, name="first", options=replace(OPTIONS, audit_sample=10_000))
    workers = await converged(first)
    assert drifts(workers) == []
    synced = {key.name for key in units(workers)}
    refused = {name for name in known if name not in synced}
    told = {f.workload.name for f in first.engine.findings if f.severity is Severity.ERROR and f.workload is not None}
    assert refused == told
    assert len(refused) < len(known) / 5

    # The same daemon looks at every unit again.
    first.clear()
    for worker in workers:
        assert worker._session is not None
        for key in list(worker.state.units):
            worker._session.queue.poke(key)
        await worker._session.queue.idle()
    assert [call for name in planes_by_name for call in first.calls(name)] == []

    # An audit of every object: no list and no dry run shows anything that was not known.
    for worker in workers:
        assert await worker.make_audit()
        assert worker.audit is not None
        assert (worker.audit.found, worker.audit.sentences) == (0, ())
        assert worker.audit.checked > len(worker.state.objects) / 2, "some are made once, or move"
    assert [write for name in planes_by_name for write in first.writes(name)] == []

    # What is sent is what is stored: applied once more, the API server changes nothing.
    kinds = Counter[str]()
    for worker in workers:
        kinds += await every_apply_is_a_no_op(worker, planes_by_name[worker.name])
    assert len(kinds) > 55
    for name in sorted(refused):
        applied_twice_is_applied_once(planes_by_name[DGX], *known[name])

    # Another process that knows nothing.
    first.stop.set()
    await first.task
    second = await fleet(repo, planes_by_name, name="second")
    again = await converged(second)
    for name in planes_by_name:
        assert second.writes(name) == []
        assert not [request for request in second.calls(name) if request.is_dry_run]
    assert drifts(again) == []
    assert set(units(again)) == set(units(workers))
    assert {unit.outcome.state for unit in units(again).values()} == {SyncState.SYNCED}


async def every_apply_is_a_no_op(worker: ClusterWorker, plane: ControlPlane) -> Counter[str]:
    """Apply each object of the cluster's units again; how many of each kind there were."""
    connection = await Connection.open(plane.kubeconfig, name=worker.name)
    applier, slots = Applier(connection, Discovery(connection), manager=worker.state.manager), asyncio.Semaphore(8)
    objects = [o for key in worker.state.units if (unit := worker.state.unit(key)) for o in unit.objects]

    async def again(desired: DesiredObject) -> tuple[str, str, tuple[Any, ...]]:
        version = worker.state.objects[desired.ref].resource_version
        async with slots:
            for _ in range(3):  # a controller's status may come in between
                outcome = await applier.apply(desired, known_version=version)
                if outcome.result is ApplyResult.UNCHANGED:
                    break
                version = outcome.resource_version
            return str(desired.ref), str(outcome.result), outcome.overridden

    try:
        found = await asyncio.gather(*(again(desired) for desired in objects))
    finally:
        await connection.close()
    assert [each for each in found if each[1:] != ("unchanged", ())] == []
    return Counter(desired.gvk.kind for desired in objects)


def applied_twice_is_applied_once(plane: ControlPlane, origin: str, body: Body) -> None:
    """Past the engine; what the API server refuses too is nothing to compare."""
    prepared = canonical_resources(prepare_body(body)[0])
    group, _, version = prepared["apiVersion"].rpartition("/")
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    listing = plane.get(base)["resources"]
    plural = next(r["name"] for r in listing if r["kind"] == prepared["kind"] and "/" not in r["name"])
    path = f"{base}/namespaces/{NAMESPACE}/{plural}/{prepared['metadata']['name']}"
    query = {"fieldManager": "twice", "force": "true"}
    try:
        once = plane.request("PATCH", path, prepared, content_type=APPLY, query=query)
    except ApiFailure:
        return
    twice = plane.request("PATCH", path, prepared, content_type=APPLY, query=query)
    assert twice["metadata"]["resourceVersion"] == once["metadata"]["resourceVersion"], origin
