"""What something else has to exist or to go for."""

from __future__ import annotations

import asyncio

from controlplane_kit.client import MERGE
from controlplane_kit.controlplane import free_port

from cluster_kit.error_scene import DEFINITIONS, Scene, aggregated, produces
from gitops.cluster.errors import ApiError

# -- what has to exist, or to go, first --------------------------------------------------------------------------------


@produces("namespace-terminating")
async def _namespace_terminating(scene: Scene) -> list[ApiError]:
    # Without controllers nobody finishes it.
    await asyncio.to_thread(scene.api.request, "DELETE", f"/api/v1/namespaces/{scene.namespace}")
    return [await scene.refused_at_last(scene.config_map(), "namespace-terminating")]


@produces("definition-terminating")
async def _definition_terminating(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1")
    held = scene.body(f"{group}/v1", "Thing", metadata={"finalizers": ["test.example/hold"]})
    at = f"/apis/{group}/v1/namespaces/{scene.namespace}/things"
    scene.api.request("POST", at, held)
    scene.api.request("DELETE", f"{DEFINITIONS}/things.{group}")
    scene.leaving.callback(
        scene.api.request, "PATCH", f"{at}/one", {"metadata": {"finalizers": None}}, content_type=MERGE
    )
    return [await scene.refused_at_last(scene.body(f"{group}/v1", "Thing", "two"), "definition-terminating")]


@produces("object-deleting")
async def _object_deleting(scene: Scene) -> list[ApiError]:
    scene.api.request("POST", f"{scene.here}/configmaps", scene.config_map(metadata={"finalizers": ["test.example/x"]}))
    scene.api.request("DELETE", f"{scene.here}/configmaps/one")
    return [await scene.refused(scene.config_map())]


@produces("service-account-missing")
async def _service_account_missing(scene: Scene) -> list[ApiError]:
    scene.api = scene.own()  # with the admission plugin that looks for it
    scene.api.create_namespace(scene.namespace)
    error = await scene.refused(scene.pod(serviceAccountName="ghost"))
    assert error.waits_for == f"service account {scene.namespace}/ghost"
    return [error]


@produces("priority-class-missing")
async def _priority_class_missing(scene: Scene) -> list[ApiError]:
    return [await scene.refused(scene.pod(priorityClassName="urgent"))]


@produces("runtime-class-missing")
async def _runtime_class_missing(scene: Scene) -> list[ApiError]:
    return [await scene.refused(scene.pod(runtimeClassName="nvidia"))]


@produces("quota-exceeded")
async def _quota_exceeded(scene: Scene) -> list[ApiError]:
    quota = scene.body("v1", "ResourceQuota", "few", spec={"hard": {"count/secrets": "0"}})
    scene.api.request("POST", f"{scene.here}/resourcequotas", quota)
    counted = {"status": {"hard": {"count/secrets": "0"}, "used": {"count/secrets": "0"}}}
    scene.api.request("PATCH", f"{scene.here}/resourcequotas/few/status", counted, content_type=MERGE)
    return [await scene.refused_at_last(scene.body("v1", "Secret"), "quota-exceeded")]


@produces("quota-unknown")
async def _quota_unknown(scene: Scene) -> list[ApiError]:
    quota = scene.body("v1", "ResourceQuota", "few", spec={"hard": {"count/secrets": "0"}})
    scene.api.request("POST", f"{scene.here}/resourcequotas", quota)
    known = {"status": {"hard": {"count/secrets": "0"}}}  # and nobody has counted
    scene.api.request("PATCH", f"{scene.here}/resourcequotas/few/status", known, content_type=MERGE)
    return [await scene.refused_at_last(scene.body("v1", "Secret"), "quota-unknown")]


@produces("kind-not-served")
async def _kind_not_served(scene: Scene) -> list[ApiError]:
    group = scene.definition("v1")
    applier = await scene.applier()
    await scene.applied(scene.body(f"{group}/v1", "Thing"), applier)
    scene.api.request("DELETE", f"{DEFINITIONS}/things.{group}")
    path = f"/apis/{group}/v1/namespaces/{scene.namespace}/things"
    scene.api.wait(lambda: scene.api.get(path) is None, "the kind to be gone")
    error = await scene.refused(scene.body(f"{group}/v1", "Thing"), applier)  # discovery still says it is served
    assert error.waits_for == f"kind Thing.{group} at v1"
    return [error]


@produces("kind-not-found")
async def _kind_not_found(scene: Scene) -> list[ApiError]:
    return [await scene.refused(scene.body("nowhere.example/v1", "Thing"))]


@produces("kind-not-stored")
async def _kind_not_stored(scene: Scene) -> list[ApiError]:
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "metadata": {"name": "me"}}
    return [await scene.refused(review | {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}})]


@produces("discovery-failed")
async def _discovery_failed(scene: Scene) -> list[ApiError]:
    aggregated(scene, "v1.dark.gitops.example", free_port())
    applier = await scene.applier()
    return [await scene.refused_at_last(scene.body("dark.gitops.example/v1", "Thing"), "discovery-failed", applier)]


@produces("namespace-missing")
async def _namespace_missing(scene: Scene) -> list[ApiError]:
    error = await scene.refused(scene.config_map(metadata={"namespace": "ghost"}))
    assert error.waits_for == "namespace ghost"
    return [error]


@produces("role-missing")
async def _role_missing(scene: Scene) -> list[ApiError]:
    rule = {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["rolebindings"], "verbs": ["*"]}
    applier = await scene.applier(scene.rights("binder", rule))  # who may bind anything is not asked for the role
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "x"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    body = scene.body("rbac.authorization.k8s.io/v1", "RoleBinding", "b", roleRef=ref, subjects=[subject])
    error = await scene.refused_at_last(body, "role-missing", applier)
    assert error.waits_for == "role reader"
    return [error]
