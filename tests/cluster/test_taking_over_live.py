"""Taking over, end to end on a real API server: kubectl is the other client, other tools write as they really do."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from cluster_kit.live_unit import LiveUnit, managers, names
from controlplane_kit.client import APPLY, MERGE, ApiServer

from gitops.model.adoption import Adoption, Tool
from gitops.reconcile.outcomes import SyncState

pytestmark = pytest.mark.controlplane

JSON_PATCH = "application/json-patch+json"
Json = dict[str, Any]


def adopt_from(*tools: Tool) -> Adoption:
    return Adoption(True, frozenset(tools))


def config_map(namespace: str, name: str = "settings", /, **data: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace}, "data": data}


def service(namespace: str, port: int, **more: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"selector": {"app": "web"}, "ports": [{"name": "http", "port": port, **more}]},
    }


def deployment(namespace: str, container: str, volume: Json, **spec: Any) -> Json:
    pod = {"containers": [{"name": container, "image": "x"}], "volumes": [{"name": "v", **volume}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": pod},
            **spec,
        },
    }


def labelled(body: Json, **labels: str) -> Json:
    body = copy.deepcopy(body)
    body["metadata"]["labels"] = labels
    return body


class Shop:
    """A namespace as kubectl sees it."""

    def __init__(self, api: ApiServer, namespace: str) -> None:
        self.api, self.namespace = api, namespace

    def path(self, plural: str, name: str) -> str:
        group = "/apis/apps/v1" if plural == "deployments" else "/api/v1"
        return f"{group}/namespaces/{self.namespace}/{plural}/{name}"

    def get(self, plural: str, name: str) -> Json:
        found = json.loads(
            self.api.kubectl("get", plural, name, "-n", self.namespace, "-o", "json", "--show-managed-fields")
        )
        assert isinstance(found, dict)
        return found

    def kubectl(self, *arguments: str, body: Json) -> None:
        self.api.kubectl(*arguments, "-f", "-", stdin=json.dumps(body))

    def touch(self, plural: str, name: str, patch: Json, *, manager: str) -> None:
        path = self.path(plural, name)
        self.api.request("PATCH", path, patch, content_type=MERGE, query={"fieldManager": manager})

    def applied(self, plural: str, body: Json, *, manager: str) -> Json:
        """As a tool that uses server-side apply."""
        query = {"fieldManager": manager, "force": "true"}
        return self.api.request(
            "PATCH", self.path(plural, body["metadata"]["name"]), body, content_type=APPLY, query=query
        )

    def created(self, plural: str, body: Json, *, manager: str) -> Json:
        """As a tool that does not."""
        path = self.path(plural, "").rstrip("/")
        return self.api.request("POST", path, body, query={"fieldManager": manager})


@pytest.fixture
def shop(shared_api: ApiServer, namespace: str) -> Shop:
    return Shop(shared_api, namespace)


# -- kubectl ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [["apply"], ["apply", "--server-side"], ["create"], ["create", "--save-config"]], ids=" ".join
)
async def test_s01_9_what_kubectl_declared_leaves_with_git_at_once(
    live_unit: LiveUnit, shop: Shop, how: list[str]
) -> None:
    """A port under another number, a container and a volume's source renamed, a label and a key dropped: all of it is
    invalid or left over when the old entries are not folded first."""
    place = shop.namespace
    shop.kubectl(*how, body=labelled(service(place, 80), old="1", kept="1"))
    shop.kubectl(*how, body=deployment(place, "old", {"emptyDir": {}}))
    shop.kubectl(*how, body=config_map(place, one="1", two="2"))
    if how == ["apply"]:  # somebody moved on to server-side apply; a manager of its own keeps the annotation
        shop.kubectl("apply", "--server-side", body=config_map(place, one="1", two="2"))
    shop.touch("configmaps", "settings", {"data": {"theirs": "x"}}, manager="operator")
    uid = shop.get("deployments", "web")["metadata"]["uid"]

    outcome = await live_unit.declare(
        labelled(service(place, 8080), kept="1"),
        deployment(place, "new", {"configMap": {"name": "settings"}}),
        config_map(place, one="1"),
    )
    assert outcome.state is SyncState.SYNCED, outcome
    web, settings, app = shop.get("services", "web"), shop.get("configmaps", "settings"), shop.get("deployments", "web")
    assert [p["port"] for p in web["spec"]["ports"]] == [8080]
    assert set(web["metadata"]["labels"]) == {"kept", "gitops/reconciler", "applyset.kubernetes.io/part-of"}
    assert settings["data"] == {"one": "1", "theirs": "x"}, "fields of unknown managers stay"
    pod = app["spec"]["template"]["spec"]
    assert (app["metadata"]["uid"], names(pod["containers"])) == (uid, ["new"])
    assert set(pod["volumes"][0]) == {"name", "configMap"}
    assert not any("last-applied" in str(o["metadata"].get("annotations")) for o in (web, settings, app))
    assert managers(settings) == {(live_unit.state.manager, "Apply"), ("operator", "Update")}
    assert "adopted" in outcome.sentence
    assert "removed" in outcome.sentence
    assert "made by kubectl" in outcome.sentence

    assert (await live_unit.see()).sentence == outcome.sentence
    await live_unit.settled(
        config_map(place), labelled(service(place, 8080)), deployment(place, "new", {"emptyDir": {}})
    )
    assert shop.get("configmaps", "settings")["data"] == {"theirs": "x"}


async def test_s01_edits_by_hand_and_unknown_clients_stay_and_replace_is_folded(
    live_unit: LiveUnit, shop: Shop
) -> None:
    place = shop.namespace
    shop.created("configmaps", config_map(place, made="1", theirs="1"), manager="some-operator")
    shop.touch("configmaps", "settings", {"data": {"edited": "1"}}, manager="kubectl-edit")
    body = shop.get("configmaps", "settings")
    del body["metadata"]["managedFields"]
    body["data"] |= {"replaced": "1", "twice": "1"}
    shop.kubectl("replace", body=body)
    outcome = await live_unit.declare(config_map(place, made="2", twice="1"))
    assert outcome.state is SyncState.SYNCED
    assert shop.get("configmaps", "settings")["data"] == {"made": "2", "twice": "1", "theirs": "1", "edited": "1"}
    assert "changed data.made" in outcome.sentence
    assert "removed data.replaced" in outcome.sentence


async def test_27_adoption_never_scales_down(live_unit: LiveUnit, shop: Shop) -> None:
    """An autoscaler that wants the number that is there owns nothing; dropped by its last owner it would be 1."""
    place = shop.namespace
    shop.kubectl("create", body=deployment(place, "web", {"emptyDir": {}}, replicas=3))
    outcome = await live_unit.declare(deployment(place, "web", {"emptyDir": {}}))
    live = shop.get("deployments", "web")
    assert (outcome.state, live["spec"]["replicas"], live["metadata"]["generation"]) == (SyncState.SYNCED, 3, 1)
    assert "left as it is, declared by nobody: spec.replicas" in outcome.sentence


async def test_41_finalizers_and_annotations_of_operators_survive_adoption_and_all_that_follows(
    live_unit: LiveUnit, shop: Shop
) -> None:
    place = shop.namespace
    made = config_map(place, one="1", two="2")
    made["metadata"]["finalizers"] = ["operator.example/guard"]
    shop.kubectl("apply", body=made)
    shop.touch("configmaps", "settings", {"metadata": {"annotations": {"operator.example/x": "1"}}}, manager="operator")
    for body in (config_map(place, one="1"), config_map(place, one="2"), config_map(place)):
        await live_unit.settled(body)
        await live_unit.see()
    shop.touch("configmaps", "settings", {"metadata": {"managedFields": [{}]}}, manager="someone")
    await live_unit.see()
    await live_unit.settled(config_map(place, three="3"))
    live = shop.get("configmaps", "settings")["metadata"]
    assert live["finalizers"] == ["operator.example/guard"]
    assert live["annotations"] == {"operator.example/x": "1"}
    shop.touch("configmaps", "settings", {"metadata": {"finalizers": None}}, manager="operator")


@pytest.mark.parametrize("kubectl_noted", [True, False])
async def test_7_an_object_whose_managed_fields_are_gone_is_adopted_and_nothing_stays_behind_later(
    live_unit: LiveUnit, shop: Shop, kubectl_noted: bool
) -> None:
    place = shop.namespace
    shop.kubectl("apply" if kubectl_noted else "create", body=config_map(place, one="1", two="2", three="3"))
    shop.touch("configmaps", "settings", {"metadata": {"managedFields": [{}]}, "data": {"z": "9"}}, manager="x")
    outcome = await live_unit.declare(config_map(place, one="1", two="2"))
    live = shop.get("configmaps", "settings")
    assert managers(live) == {(live_unit.state.manager, "Apply")}
    if kubectl_noted:
        assert live["data"] == {"one": "1", "two": "2", "z": "9"}, "what kubectl noted to have declared is gone"
        assert "left as it is, declared by nobody: data.z" in outcome.sentence
    else:
        assert "left as it is, declared by nobody: data.three, data.z" in outcome.sentence
    await live_unit.settled(config_map(place, one="1"))
    assert "two" not in shop.get("configmaps", "settings")["data"]


async def test_unowned_leftovers_are_told_whenever_they_are_seen(live_unit: LiveUnit, shop: Shop) -> None:
    """Somebody applies our manifest with kubectl too: it co-owns what Git drops later."""
    place = shop.namespace
    await live_unit.settled(config_map(place, one="1", two="2"))
    shop.kubectl("apply", "--server-side", body=config_map(place, one="1", two="2"))
    outcome = await live_unit.declare(config_map(place, one="1"))
    assert shop.get("configmaps", "settings")["data"] == {"one": "1", "two": "2"}
    told = f"1 field of ConfigMap {place}/settings is owned by nobody who declares it: data.two"
    assert (outcome.state, outcome.sentence) == (SyncState.SYNCED, told)
    live_unit.forget()
    assert told in (await live_unit.see()).sentence, "a new daemon lists before it does anything"


async def test_what_an_earlier_tool_adds_after_its_object_was_taken_over_is_told(
    live_unit: LiveUnit, shop: Shop
) -> None:
    """As `helm upgrade` of the release does: it adds beside what is declared, which is no drift."""
    place = shop.namespace
    theirs = config_map(place, one="1")
    theirs["metadata"] |= {"labels": HELM[0], "annotations": HELM[1]}
    shop.created("configmaps", theirs, manager="helm")
    await live_unit.settled(config_map(place, one="1"), adoption=adopt_from(Tool.HELM))
    await live_unit.see()
    live_unit.looks.clear()
    shop.touch("configmaps", "settings", {"data": {"two": "2"}}, manager="helm")
    outcome = await live_unit.see()
    assert outcome.applied == 0
    assert live_unit.looks == [live_unit.key]
    assert "is owned by nobody who declares it: data.two" in outcome.sentence


# -- other tools -----------------------------------------------------------------------------------------------------

HELM = (
    {"app.kubernetes.io/managed-by": "Helm"},
    {"meta.helm.sh/release-name": "r", "meta.helm.sh/release-namespace": "n"},
)
FLUX = {"kustomize.toolkit.fluxcd.io/name": "apps", "kustomize.toolkit.fluxcd.io/namespace": "flux-system"}, {}
RELEASE = (
    {
        **HELM[0],
        "helm.toolkit.fluxcd.io/name": "r",
        "helm.toolkit.fluxcd.io/namespace": "n",
    },
    HELM[1],
)
ARGO = {}, {"argocd.argoproj.io/tracking-id": "shop:/ConfigMap:{place}/settings"}
ARGO_LABEL = {"app.kubernetes.io/instance": "shop"}, {}
APPLYSET = {"applyset.kubernetes.io/part-of": "applyset-other-v1"}, {}


@pytest.mark.parametrize(
    ("marks", "manager", "applies", "tool", "words"),
    [
        pytest.param(HELM, "helm", False, Tool.HELM, "the Helm release r", id="helm 3"),
        pytest.param(HELM, "helm", True, Tool.HELM, "the Helm release r", id="helm 4"),
        pytest.param(
            HELM, "terraform-provider-helm_v2.17.0_x5", False, Tool.HELM, "the Helm release r", id="terraform"
        ),
        pytest.param(FLUX, "kustomize-controller", True, Tool.FLUX, "the Flux Kustomization apps", id="flux"),
        pytest.param(RELEASE, "helm-controller", True, Tool.FLUX, "the Flux HelmRelease r", id="flux helm"),
        pytest.param(ARGO, "argocd-controller", True, Tool.ARGOCD, "the Argo CD application shop", id="argo ssa"),
        pytest.param(
            ARGO_LABEL, "argocd-application-controller", False, Tool.ARGOCD, "the Argo CD application shop", id="argo 2"
        ),
        pytest.param(APPLYSET, "kubectl", True, Tool.APPLYSET, "the ApplySet applyset-other-v1", id="applyset"),
    ],
)
async def test_objects_of_a_tool_are_refused_until_it_is_named_and_then_wholly_ours(
    live_unit: LiveUnit, shop: Shop, marks: tuple[Json, Json], manager: str, applies: bool, tool: Tool, words: str
) -> None:
    place = shop.namespace
    theirs = config_map(place, one="1", two="2")
    notes = {key: value.format(place=place) for key, value in marks[1].items()}
    theirs["metadata"] |= {"labels": {**marks[0], "chart": "x"}, "annotations": {**notes, "note": "x"}}
    write = shop.applied if applies else shop.created
    before = write("configmaps", theirs, manager=manager)
    shop.touch("configmaps", "settings", {"metadata": {"annotations": {"operator.example/x": "1"}}}, manager="operator")

    for adoption in ({}, {"adoption": adopt_from(*(set(Tool) - {tool}))}):
        refused = await live_unit.declare(config_map(place, one="1"), **adoption)
        assert refused.state is SyncState.REFUSED
        assert f"it exists and {words} declares it; `adoptFrom: [{tool}]` would take it over" in refused.sentence
    assert shop.get("configmaps", "settings")["data"] == {"one": "1", "two": "2"}
    never = await live_unit.declare(
        config_map(place, one="1"), adoption=adopt_from(tool), repository=Adoption(allowed=False)
    )
    assert "adopt: never" in never.sentence

    outcome = await live_unit.declare(config_map(place, one="1"), repository=adopt_from(tool))
    live = shop.get("configmaps", "settings")
    assert outcome.state is SyncState.SYNCED, outcome
    assert live["metadata"]["uid"] == before["metadata"]["uid"]
    assert live["data"] == {"one": "1"}, "what the tool declared and Git does not is gone"
    assert set(live["metadata"]["labels"]) == {"gitops/reconciler", "applyset.kubernetes.io/part-of"}
    assert live["metadata"]["annotations"] == {"operator.example/x": "1"}
    assert managers(live) == {(live_unit.state.manager, "Apply"), ("operator", "Update")}
    assert f"adopted ConfigMap {place}/settings (made by {words}" in outcome.sentence
    assert "removed data.two" in outcome.sentence
    assert {Tool.HELM: "helm uninstall", Tool.FLUX: "Flux", Tool.ARGOCD: "Argo CD", Tool.APPLYSET: "--applyset"}[
        tool
    ] in outcome.sentence


async def test_another_reconciler_and_a_controller_are_refused_whatever_is_named(
    live_unit: LiveUnit, shop: Shop
) -> None:
    place, everything = shop.namespace, adopt_from(*Tool)
    shop.kubectl("apply", body=labelled(config_map(place, one="1"), **{"gitops/reconciler": "another"}))
    owner = shop.created("configmaps", config_map(place, "owner"), manager="x")["metadata"]
    # An operator copied our labels to what it made: our watch shows it as if it were ours (R10).
    copied = {"gitops/reconciler": "test", "applyset.kubernetes.io/part-of": "applyset-parent-v1"}
    for name, labels in (("child", {}), ("copy", copied)):
        child = labelled(config_map(place, name, one="1"), **labels)
        child["metadata"]["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"], "controller": True}
        ]
        shop.created("configmaps", child, manager="operator")
    bodies = [config_map(place, name, one="2") for name in ("settings", "child", "copy")]
    await live_unit.declare(*bodies, adoption=everything)
    outcome = await live_unit.see()
    told = {p.object.name: p.message for p in outcome.problems}
    assert told["settings"] == "it exists and the gitops reconciler another declares it"
    assert told["child"] == told["copy"]
    assert "belongs to ConfigMap owner" in told["child"]
    assert {n: shop.get("configmaps", n)["data"]["one"] for n in ("settings", "child", "copy")} == dict.fromkeys(
        ("settings", "child", "copy"), "1"
    )


async def test_a_mark_that_git_declares_stays(live_unit: LiveUnit, shop: Shop) -> None:
    place = shop.namespace
    theirs = labelled(config_map(place, one="1"), **HELM[0])
    theirs["metadata"]["annotations"] = HELM[1]
    shop.created("configmaps", theirs, manager="helm")
    outcome = await live_unit.declare(labelled(config_map(place, one="1"), **HELM[0]), adoption=adopt_from(Tool.HELM))
    live = shop.get("configmaps", "settings")["metadata"]
    assert outcome.state is SyncState.SYNCED
    assert live["labels"]["app.kubernetes.io/managed-by"] == "Helm"
    assert "annotations" not in live
