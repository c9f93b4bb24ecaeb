"""What the API server itself refuses, now or for good."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from controlplane_kit.client import APPLY, MERGE, ApiFailure

from cluster_kit.error_scene import DEFINITIONS, Body, Scene, produces
from gitops.cluster.connection import ConnectionSettings
from gitops.cluster.error_table import IMMUTABLE
from gitops.cluster.errors import ApiError, FieldConflict
from gitops.model.identity import GroupVersionKind, ObjectRef

# -- permanent, and yet 500 --------------------------------------------------------------------------------------------

GADGETS = Path(__file__).parents[2] / "data" / "gadgets.yaml"


@produces("storage-starting")
async def _storage_starting(scene: Scene) -> list[ApiError]:
    group, turn = scene.definition("v1"), 0
    path = f"{DEFINITIONS}/things.{group}"
    versions = scene.api.get(path)["spec"]["versions"]
    properties = versions[0]["schema"]["openAPIV3Schema"]["properties"]
    settings = ConnectionSettings(throttle_retries=0, longest_pause=0.01)
    connection = await scene.connect(scene.api.kubeconfig, settings)
    found: list[ApiError] = []

    async def from_cache() -> None:
        at = f"/apis/{group}/v1/namespaces/{scene.namespace}/things"
        response = await connection.request("GET", at, query={"resourceVersion": "0"})
        if not response.ok and response.error().row == "storage-starting":
            found.append(response.error())

    async with asyncio.timeout(60):
        while not found:  # it lasts for milliseconds
            turn += 1
            properties["spec"]["description"] = f"change {turn}"
            change = asyncio.to_thread(
                scene.api.request, "PATCH", path, {"spec": {"versions": versions}}, content_type=MERGE
            )
            await asyncio.gather(change, *(from_cache() for _ in range(40)))
    return found


@produces("schema-mismatch")
async def _schema_mismatch(scene: Scene) -> list[ApiError]:
    gadget = scene.api.create_crds(GADGETS)[0].partition(".")[2]
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    return [
        await scene.refused(scene.config_map(dta={"a": "1"})),
        await scene.refused(scene.config_map(data={"a": 1})),
        await scene.refused(scene.pod(containers=[{"name": "c", "image": "x", "env": twice}])),
        await scene.refused(scene.body(f"{gadget}/v1", "Gadget", spec={"titel": "x"})),
        await scene.refused(scene.body(f"{gadget}/v1", "Gadget", spec={"title": 7})),
        await scene.refused(scene.body(f"{gadget}/v1", "Gadget", spec={"components": [{"replicas": 1}]})),
    ]


@produces("live-manager")
async def _live_manager(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1")
    body = scene.body(f"{group}/v1", "Thing", spec={"size": "x"})
    applier = await scene.applier()
    await scene.applied(body, applier)
    size = {"type": "integer"}
    retype(scene, group, size)
    path = f"/apis/{group}/v1/namespaces/{scene.namespace}/things/one"
    scene.api.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    body["spec"] = {"size": 7}
    return [await scene.refused_at_last(body, "live-manager", applier)]


@produces("version-gone")
async def _version_gone(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1", "v2")
    applier = await scene.applier()
    await scene.applied(scene.body(f"{group}/v1", "Thing", spec={"size": "x"}), applier)
    path = f"{DEFINITIONS}/things.{group}"
    versions = [v for v in scene.api.get(path)["spec"]["versions"] if v["name"] == "v2"]
    scene.api.request("PATCH", path, {"spec": {"versions": versions}}, content_type=MERGE)
    body = scene.body(f"{group}/v2", "Thing", spec={"size": "y"})
    return [await scene.refused_at_last(body, "version-gone", applier)]


@produces("live-object")
async def _live_object(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1")
    body = scene.body(f"{group}/v1", "Thing", spec={"size": "x"})
    applier = await scene.applier()
    await scene.applied(body, applier)
    retype(scene, group, {"type": "integer"})
    body["spec"] = {"size": 7}
    return [await scene.refused_at_last(body, "live-object", applier)]


def retype(scene: Scene, group: str, schema: Body) -> None:
    """Gives `spec.size` of things another type, and waits until the API server says so."""
    path = f"{DEFINITIONS}/things.{group}"
    versions = scene.api.get(path)["spec"]["versions"]
    versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] = schema
    scene.api.request("PATCH", path, {"spec": {"versions": versions}}, content_type=MERGE)
    probe = scene.body(f"{group}/v1", "Thing", "probe", spec={"size": 7})
    at = f"/apis/{group}/v1/namespaces/{scene.namespace}/things/probe"
    query = {"fieldManager": "probe", "dryRun": "All"}

    def changed() -> bool:
        try:
            scene.api.request("PATCH", at, probe, content_type=APPLY, query=query)
        except ApiFailure:
            return False
        return True

    scene.api.wait(changed, "the definition to have its new type")


@produces("too-large")
async def _too_large(scene: Scene) -> list[ApiError]:
    # etcd's limit, that of its client, and that of the API server's bodies.
    gadget = scene.api.create_crds(GADGETS)[0].partition(".")[2]
    applier = await scene.applier()
    return [
        await scene.refused(scene.body(f"{gadget}/v1", "Gadget", spec={"free": {"x": "y" * size}}), applier)
        for size in (1_700_000, 2_500_000, 3_500_000)
    ]


# -- ownership and preconditions ---------------------------------------------------------------------------------------


@produces("conflict")
async def _conflict(scene: Scene) -> list[ApiError]:
    applier = await scene.applier()
    path = f"{scene.here}/configmaps/one"
    for manager, key in (("first", "a"), ("second", "b")):
        body = scene.config_map(data={key: "theirs"})
        scene.api.request("PATCH", path, body, content_type=APPLY, query={"fieldManager": manager})
    one = await scene.refused(scene.config_map(data={"a": "ours"}), applier, force=False)
    several = await scene.refused(scene.config_map(data={"a": "ours", "b": "ours"}), applier, force=False)
    scaled = scene.body("apps/v1", "Deployment", spec=deployment(replicas=1))
    await scene.applied(scaled, applier)
    scale = {"spec": {"replicas": 3}}
    at = f"/apis/apps/v1/namespaces/{scene.namespace}/deployments/one/scale"
    scene.api.request("PATCH", at, scale, content_type=MERGE, query={"fieldManager": "scaler"})
    by_subresource = await scene.refused(scaled, applier, force=False)
    assert one.conflicts == (FieldConflict("first", ".data.a"),)
    assert set(several.conflicts) == {FieldConflict("first", ".data.a"), FieldConflict("second", ".data.b")}
    assert by_subresource.conflicts == (FieldConflict("scaler", ".spec.replicas", "scale"),)
    return [one, several, by_subresource]


@produces("precondition")
async def _precondition(scene: Scene) -> list[ApiError]:
    applier = await scene.applier()
    live = await scene.applied(scene.config_map(), applier)
    version, uid = live["metadata"]["resourceVersion"], live["metadata"]["uid"]
    await scene.applied(scene.config_map(data={"a": "2"}), applier)
    gvk, ref = GroupVersionKind("", "v1", "ConfigMap"), ObjectRef("", "ConfigMap", scene.namespace, "one")
    deletes = [
        await applier.delete(gvk, ref, uid=uid, resource_version=version),
        await applier.delete(gvk, ref, uid="11111111-2222-3333-4444-555555555555", resource_version=version),
    ]
    created = await applier.create(gvk, ref, scene.config_map(), manager="x")
    assert isinstance(created, ApiError)
    errors = [d.error for d in deletes if d.error is not None]
    assert len(errors) == 2
    # A repair names the uid: of an object that is gone meanwhile none is made.
    gone = await scene.refused(scene.config_map("ghost"), applier, uid=uid)
    return [*errors, created, gone, await scene.refused(scene.config_map(), applier, resource_version=version)]


@produces("uid-mismatch")
async def _uid_mismatch(scene: Scene) -> list[ApiError]:
    applier = await scene.applier()
    await scene.applied(scene.config_map(), applier)
    return [await scene.refused(scene.config_map(), applier, uid="11111111-2222-3333-4444-555555555555")]


@produces("patch-test-failed")
async def _patch_test_failed(scene: Scene) -> list[ApiError]:
    applier = await scene.applier()
    await scene.applied(scene.config_map(), applier)
    gvk, ref = GroupVersionKind("", "v1", "ConfigMap"), ObjectRef("", "ConfigMap", scene.namespace, "one")
    operations = (
        [{"op": "test", "path": "/metadata/resourceVersion", "value": "1"}],
        [{"op": "remove", "path": "/data/nothing"}],
    )
    errors = [await applier.json_patch(gvk, ref, operation, manager="x") for operation in operations]
    assert all(isinstance(error, ApiError) for error in errors)
    return [error for error in errors if isinstance(error, ApiError)]


# -- live state in the way ---------------------------------------------------------------------------------------------


@produces("live-duplicate")
async def _live_duplicate(scene: Scene) -> list[ApiError]:
    scene.api.request("POST", f"{scene.here}/services", scene.service("one", {"name": "http", "port": 80}))
    return [await scene.refused(scene.service("one", {"name": "http", "port": 8080}))]


@produces("port-allocated")
async def _port_allocated(scene: Scene) -> list[ApiError]:
    made = scene.api.request("POST", f"{scene.here}/services", scene.service("one", {"port": 80}, type="NodePort"))
    taken = {"port": 80, "nodePort": made["spec"]["ports"][0]["nodePort"]}
    return [await scene.refused(scene.service("two", taken, type="NodePort"))]


# -- refused -----------------------------------------------------------------------------------------------------------


def deployment(**spec: Any) -> Body:
    labels = {"app": spec.pop("app", "one")}
    pod = {"containers": [{"name": "c", "image": spec.pop("image", "x")}]}
    template = {"metadata": {"labels": labels}, "spec": pod}
    return {"selector": {"matchLabels": labels}, "template": template, **spec}


async def changed(scene: Scene, before: Body, after: Body) -> ApiError:
    """What the API server says when an object becomes another."""
    applier = await scene.applier()
    await scene.applied(before, applier)
    error = await scene.refused({**before, **after}, applier)
    assert error.reason == IMMUTABLE
    return error


@produces("immutable-field")
async def _immutable_field(scene: Scene) -> list[ApiError]:
    job = deployment()
    del job["selector"]
    job["template"]["spec"]["restartPolicy"] = "Never"
    other = json.loads(json.dumps(job).replace('"image": "x"', '"image": "y"'))
    group = "rbac.authorization.k8s.io"
    ref = {"apiGroup": group, "kind": "ClusterRole", "name": "view"}
    return [
        await changed(scene, scene.body("apps/v1", "Deployment", spec=deployment()), {"spec": deployment(app="two")}),
        await changed(scene, scene.body("batch/v1", "Job", spec=job), {"spec": other}),
        await changed(scene, scene.body("v1", "Secret", type="a/b"), {"type": "c/d"}),
        await changed(
            scene, scene.body(f"{group}/v1", "RoleBinding", roleRef=ref), {"roleRef": {**ref, "name": "edit"}}
        ),
    ]


@produces("immutable-object")
async def _immutable_object(scene: Scene) -> list[ApiError]:
    def claim(size: str) -> Body:
        return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}

    def stateful(size: str) -> Body:
        template = {"metadata": {"name": "data"}, "spec": claim(size)}
        return deployment(serviceName="x", volumeClaimTemplates=[template])

    storage = scene.body("storage.k8s.io/v1", "StorageClass", scene.namespace, provisioner="a/b", parameters={"a": "1"})
    priority = scene.body("scheduling.k8s.io/v1", "PriorityClass", scene.namespace, value=1)
    for path in (
        f"/apis/storage.k8s.io/v1/storageclasses/{scene.namespace}",
        f"/apis/scheduling.k8s.io/v1/priorityclasses/{scene.namespace}",
    ):
        scene.leaving.callback(scene.api.request, "DELETE", path)
    volume = claim("1Gi") | {"storageClassName": "fast"}
    pod = scene.pod()
    return [
        await changed(scene, scene.body("apps/v1", "StatefulSet", spec=stateful("1Gi")), {"spec": stateful("2Gi")}),
        await changed(
            scene,
            scene.body("v1", "PersistentVolumeClaim", spec=volume),
            {"spec": volume | {"storageClassName": "slow"}},
        ),
        await changed(scene, scene.config_map("fixed", immutable=True), {"data": {"a": "2"}}),
        await changed(scene, storage, {"parameters": {"a": "2"}}),
        await changed(scene, storage | {"parameters": {"a": "1"}}, {"provisioner": "c/d"}),
        await changed(scene, priority, {"value": 2}),
        await changed(scene, pod, {"spec": {**pod["spec"], "hostNetwork": True}}),
    ]


@produces("invalid")
async def _invalid(scene: Scene) -> list[ApiError]:
    typo = scene.body("apps/v1", "Deployment", spec=deployment(replicas=-1))
    return [await scene.refused(scene.service("one")), await scene.refused(typo)]


@produces("bad-request")
async def _bad_request(scene: Scene) -> list[ApiError]:
    entry = {"manager": "x", "operation": "Apply", "fieldsType": "FieldsV1", "apiVersion": "v1", "fieldsV1": {}}
    return [await scene.refused(scene.config_map(metadata={"managedFields": [entry]}))]
