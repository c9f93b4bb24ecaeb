"""No answer, or one told by its code alone."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest
import trustme
from controlplane_kit import faults
from controlplane_kit.answering import Reply, review
from controlplane_kit.client import ApiFailure
from controlplane_kit.controlplane import free_port
from controlplane_kit.plugin import fresh_name

from cluster_kit.error_scene import Scene, aggregated, etcd, produces
from gitops.cluster.applying import Applier
from gitops.cluster.connection import Connection, ConnectionSettings
from gitops.cluster.errors import ApiError, RequestFailed, classify_status

# -- no usable answer --------------------------------------------------------------------------------------------------


@produces("no-connection")
async def _no_connection(scene: Scene) -> list[ApiError]:
    proxy = scene.proxy()
    applier = await scene.applier(proxy.kubeconfig)
    await scene.applied(scene.config_map(), applier)
    await asyncio.to_thread(proxy.refuse)
    return [await scene.refused(scene.config_map(), applier)]


@produces("timeout")
async def _timeout(scene: Scene) -> list[ApiError]:
    proxy = scene.proxy()
    applier = await scene.applier(proxy.kubeconfig, ConnectionSettings(request_timeout=2.0))
    await scene.applied(scene.config_map(), applier)
    proxy.fail(faults.Hold(), times=None)
    connection = await scene.connect(proxy.kubeconfig, ConnectionSettings(request_timeout=0.2))
    return [await scene.refused(scene.config_map(), Applier(connection, applier.discovery, manager="gitops-test"))]


@produces("tls")
async def _tls(scene: Scene) -> list[ApiError]:
    stranger = scene.kubeconfig(scene.api.url, trustme.CA().cert_pem.bytes())
    return [await scene.refused(scene.config_map(), await scene.applier(stranger))]


@produces("not-kubernetes")
async def _not_kubernetes(scene: Scene) -> list[ApiError]:
    server = scene.serve(lambda *_: Reply("<html>Welcome</html>"))
    return [
        await scene.refused(scene.config_map(), await scene.applier(scene.kubeconfig(server.url, server.authority)))
    ]


@produces("redirected")
async def _redirected(scene: Scene) -> list[ApiError]:
    errors = []
    for code in (301, 302, 307, 308):
        server = scene.serve(lambda *_, code=code: Reply("", code, {"Location": "https://login.invalid/"}))
        connection = await scene.connect(scene.kubeconfig(server.url, server.authority))
        errors.append((await connection.request("GET", "/api/v1/namespaces")).error())
    return errors


@produces("credentials-unusable")
async def _credentials_unusable(scene: Scene) -> list[ApiError]:
    path = scene.folder / "broken"
    path.write_text(scene.api.kubeconfig.read_text().replace("current-context: local", "current-context: gone"))
    with pytest.raises(RequestFailed) as failed:
        await scene.connect(path)
    return [failed.value.error]


# -- by code alone -----------------------------------------------------------------------------------------------------


@produces("path-not-found")
async def _path_not_found(scene: Scene) -> list[ApiError]:
    return [await scene.raw("GET", f"{scene.here}/nothings/one")]


@produces("object-gone")
async def _object_gone(scene: Scene) -> list[ApiError]:
    return [await scene.raw("GET", f"{scene.here}/configmaps/one")]


@produces("expired")
async def _expired(scene: Scene) -> list[ApiError]:
    scene.api = scene.own()
    at = f"/api/v1/namespaces/{scene.api.create_namespace(scene.namespace)}/configmaps"
    version = scene.api.get(at)["metadata"]["resourceVersion"]
    for name in ("a", "b"):
        scene.api.request("POST", at, scene.config_map(name))
    etcd(scene.own(), "kv/compaction", revision=scene.api.get(at)["metadata"]["resourceVersion"], physical=True)
    await asyncio.to_thread(scene.own().restart_apiserver)  # with its cache of events
    exactly = {"resourceVersion": version, "resourceVersionMatch": "Exact", "limit": "1"}
    connection = await scene.connect(scene.api.kubeconfig)
    listed = await connection.request("GET", at, query=exactly)
    return [listed.error(resource="configmaps"), await watched(connection, at, version)]


async def watched(connection: Connection, path: str, version: str) -> ApiError:
    """The error that the first event of a watch tells: 410 comes inside a 200."""
    async with connection.stream(path, query={"watch": "1", "resourceVersion": version}) as lines:
        async for line in lines:
            event = json.loads(line)
            assert event["type"] == "ERROR"
            return classify_status(event["object"])
    raise AssertionError("the watch ended")


@produces("throttled")
async def _throttled(scene: Scene) -> list[ApiError]:
    """Priority and fairness with a single seat for one user, taken by a call that a webhook keeps waiting."""
    scene.api = scene.own()
    scene.api.create_namespace(scene.namespace)
    user, group = fresh_name("slow"), "flowcontrol.apiserver.k8s.io/v1"
    limited = {"nominalConcurrencyShares": 0, "lendablePercent": 0, "borrowingLimitPercent": 0}
    level = {"type": "Limited", "limited": {**limited, "limitResponse": {"type": "Reject"}}}
    subject = {"kind": "User", "user": {"name": user}}
    rule = {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": True, "namespaces": ["*"]}
    flow = {
        "matchingPrecedence": 2,
        "priorityLevelConfiguration": {"name": user},
        "rules": [{"subjects": [subject], "resourceRules": [rule]}],
    }
    for plural, kind, spec in (
        ("prioritylevelconfigurations", "PriorityLevelConfiguration", level),
        ("flowschemas", "FlowSchema", flow),
    ):
        body = {"apiVersion": group, "kind": kind, "metadata": {"name": user}, "spec": spec}
        scene.post(f"/apis/{group}/{plural}", body)
    release, patch = threading.Event(), {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch", "create"]}

    def hold(method: str, path: str, asked: Any) -> Reply:
        release.wait(20)
        return review(True)(method, path, asked)

    server = scene.serve(hold)
    scene.leaving.callback(release.set)
    scene.webhook(server.url, server.bundle)
    settings = ConnectionSettings(throttle_retries=0, longest_pause=0.05)
    applier = await scene.applier(scene.rights(user, patch), settings)
    tries: set[asyncio.Task[ApiError]] = set()
    async with asyncio.timeout(30):
        while True:  # until webhook, rights and priority are in force, no call is kept waiting
            tries.add(asyncio.create_task(scene.refused(scene.config_map(), applier)))
            done, _ = await asyncio.wait(tries, timeout=0.05)
            errors = [t.result() for t in done if not t.exception() and t.result().row == "throttled"]
            if errors:
                break
            tries -= done
    release.set()
    await asyncio.gather(*tries, return_exceptions=True)
    assert errors[0].retry_after == 1
    return errors


@produces("server-error")
async def _server_error(scene: Scene) -> list[ApiError]:
    aggregated(scene, "v1.down.gitops.example", free_port())
    path = f"/apis/down.gitops.example/v1/namespaces/{scene.namespace}/things/one"

    def answers() -> bool:  # until then the path is not known at all
        try:
            return scene.api.get(path) is not None
        except ApiFailure:
            return True

    scene.api.wait(answers, "the API to be aggregated")
    error = await scene.raw("GET", path)
    assert error.status == 503
    return [error]


@produces("neighbour-missing")
async def _neighbour_missing(scene: Scene) -> list[ApiError]:
    """An aggregated API that says of an apply that something else is missing."""
    group = fresh_name("agg")[-8:] + ".gitops.example"
    resource = {
        "name": "things",
        "singularName": "thing",
        "namespaced": True,
        "kind": "Thing",
        "verbs": ["list", "patch"],
    }
    listing = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{group}/v1", "resources": [resource]}
    missing = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": 'models "llama" not found',
        "reason": "NotFound",
        "details": {"kind": "models", "name": "llama"},
        "code": 404,
    }

    def answer(method: str, path: str, body: Any) -> Reply:
        return Reply(missing, 404) if method == "PATCH" else Reply(listing)

    aggregated(scene, f"v1.{group}", scene.serve(answer).port)
    error = await scene.refused_at_last(scene.body(f"{group}/v1", "Thing"), "neighbour-missing")
    assert error.waits_for == "models llama"
    return [error]
