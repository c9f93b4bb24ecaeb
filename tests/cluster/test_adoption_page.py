"""docs/adoption.md: its commands are run as they stand there, and do what it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from cluster_kit.live_unit import LiveUnit
from controlplane_kit.client import MERGE, ApiServer
from controlplane_kit.definitions import definition

from gitops.model.adoption import Adoption, Tool
from gitops.model.bundles import Bundle
from gitops.model.document_kinds import KINDS
from gitops.reconcile.outcomes import SyncState

PAGE = (Path(__file__).parents[2] / "docs" / "adoption.md").read_text(encoding="utf-8")
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
DOCUMENTS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


THEIRS = (
    ("kustomize.toolkit.fluxcd.io", "Kustomization", "kustomizations", "v1", "flux-system", "apps", {"prune": True}),
    ("helm.toolkit.fluxcd.io", "HelmRelease", "helmreleases", "v2", "shop", "web", {"interval": "5m"}),
    ("argoproj.io", "Application", "applications", "v1alpha1", "argocd", "shop", {"syncPolicy": {"automated": {}}}),
)


@pytest.mark.controlplane
def test_the_commands_of_the_page_work(shared_api: ApiServer) -> None:
    assert len(COMMANDS) == 8
    shared_api.create_crd_objects(
        [definition(kind, group, plural=plural, version=version) for group, kind, plural, version, *_ in THEIRS]
    )
    for namespace in ("shop", "flux-system", "argocd"):
        if shared_api.get(f"/api/v1/namespaces/{namespace}") is None:
            shared_api.create_namespace(namespace)
    for group, kind, _, version, namespace, name, spec in THEIRS:
        metadata = {"name": name, "namespace": namespace, "finalizers": ["example.com/keeps"]}
        body = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": metadata, "spec": spec}
        shared_api.kubectl("create", "-f", "-", stdin=json.dumps(body))
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {
            "name": "sh.helm.release.v1.web.v1",
            "namespace": "shop",
            "labels": {"owner": "helm", "name": "web"},
        },
    }
    shared_api.kubectl("create", "-f", "-", stdin=json.dumps(secret))

    def theirs(index: int) -> Any:
        group, _, plural, version, namespace, name, _ = THEIRS[index]
        return shared_api.get(f"/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}")

    for command in COMMANDS:
        program, *arguments = shlex.split(command)
        assert program == "kubectl"
        if arguments[0] == "delete" and "secret" not in arguments:
            arguments.append("--wait=false")  # no controller of theirs is here to release it
        shared_api.kubectl(*arguments)
        if "suspend" in command or "automated" in command:
            spec = theirs([e[2] for e in THEIRS].index(arguments[1].partition(".")[0]))["spec"]
            assert spec.get("suspend") is True or spec == {"syncPolicy": {}}
    assert shared_api.get("/api/v1/namespaces/shop/secrets/sh.helm.release.v1.web.v1") is None
    assert theirs(2) is None, "without its finalizer nothing of Argo CD deletes what it had"
    for index in (0, 1):
        assert theirs(index)["metadata"]["deletionTimestamp"]
        group, _, plural, version, namespace, name, _ = THEIRS[index]
        path = f"/apis/{group}/{version}/namespaces/{namespace}/{plural}/{name}"
        shared_api.request("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)


def test_its_documents_are_documents() -> None:
    import yaml

    (text,) = DOCUMENTS
    document = KINDS["Bundle"].model_validate(yaml.safe_load(text))
    assert isinstance(document, Bundle)
    assert document.spec.adoption == Adoption(True, frozenset({Tool.HELM}))


@pytest.mark.controlplane
async def test_an_object_without_our_marks_is_not_deleted(
    live_unit: LiveUnit, shared_api: ApiServer, namespace: str
) -> None:
    """Going back, for one object."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": namespace},
        "data": {"a": "1"},
    }
    await live_unit.settled(body)
    shared_api.kubectl(
        "label", "configmap", "a", "-n", namespace, "gitops/reconciler-", "applyset.kubernetes.io/part-of-"
    )
    outcome = await live_unit.declare()
    assert outcome.state in (SyncState.SYNCED, SyncState.RETAINED), outcome
    assert shared_api.get(f"/api/v1/namespaces/{namespace}/configmaps/a")["data"] == {"a": "1"}
