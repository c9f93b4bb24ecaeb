"""Stages, references, failure domains, dependencies."""

from __future__ import annotations

import itertools

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gitops.model.identity import GroupKind, GroupVersionKind, ObjectRef
from gitops.plan.ordering import order, stage_of
from gitops.plan.references import Node, references
from gitops.plan.units import Stage
from gitops.policy.annotations import BadAnnotationError, Dependency, parse_dependencies
from gitops.policy.registry import OperatorRegistry

REGISTRY = OperatorRegistry.shipped()


def node(text, depends_on=""):
    body = yaml.safe_load(text)
    gvk = GroupVersionKind.parse(body["apiVersion"], body["kind"])
    ref = ObjectRef(gvk.group, gvk.kind, "ns", body["name"])
    return Node(ref, gvk, body, parse_dependencies(depends_on) if depends_on else ())


def config(name, depends_on=""):
    return node(f"{{apiVersion: v1, kind: ConfigMap, name: {name}}}", depends_on)


@pytest.mark.parametrize(
    ("api_version", "kind", "stage"),
    [
        ("v1", "Namespace", Stage.NAMESPACE),
        ("v1", "ServiceAccount", Stage.ACCESS),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", Stage.ACCESS),
        ("v1", "ConfigMap", Stage.CONFIG),
        ("v1", "PersistentVolumeClaim", Stage.CONFIG),
        ("networking.k8s.io/v1", "Ingress", Stage.CONFIG),
        ("apiextensions.k8s.io/v1", "CustomResourceDefinition", Stage.DEFINITION),
        ("apps.nvidia.com/v1alpha1", "NIMCache", Stage.CUSTOM_EARLY),
        ("apps.nvidia.com/v1alpha1", "NIMService", Stage.CUSTOM),
        ("example.com/v1", "Deployment", Stage.CUSTOM),
        ("apps/v1", "Deployment", Stage.WORKLOAD),
        ("batch/v1", "Job", Stage.WORKLOAD),
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", Stage.ADMISSION),
    ],
)
def test_stage(api_version, kind, stage):
    assert stage_of(GroupVersionKind.parse(api_version, kind), REGISTRY) is stage


CONFIG, SECRET = GroupKind("", "ConfigMap"), GroupKind("", "Secret")


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("envFrom: [{configMapRef: {name: x}}]", CONFIG, "x"),
        ("env: [{valueFrom: {secretKeyRef: {name: x, key: k}}}]", SECRET, "x"),
        ("volumes: [{configMap: {name: x}}]", CONFIG, "x"),
        ("volumes: [{secret: {secretName: x}}]", SECRET, "x"),
        ("volumes: [{persistentVolumeClaim: {claimName: x}}]", GroupKind("", "PersistentVolumeClaim"), "x"),
        ("volumes: [{projected: {sources: [{configMap: {name: x}}]}}]", CONFIG, "x"),
        ("serviceAccountName: x", GroupKind("", "ServiceAccount"), "x"),
        ("imagePullSecrets: [{name: x}]", SECRET, "x"),
        ("image: {pullSecrets: [x]}", SECRET, "x"),
        ("authSecret: x", SECRET, "x"),
        ("storage: {nimCache: {name: x}}", GroupKind("apps.nvidia.com", "NIMCache"), "x"),
        ("scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: x}", GroupKind("apps", "Deployment"), "x"),
        ("subjects: [{kind: ServiceAccount, name: x}]", GroupKind("", "ServiceAccount"), "x"),
        (
            "roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: x}",
            GroupKind("rbac.authorization.k8s.io", "Role"),
            "x",
        ),
        ("backend: {service: {name: x}}", GroupKind("", "Service"), "x"),
        ("priorityClassName: x", GroupKind("scheduling.k8s.io", "PriorityClass"), "x"),
        ("runtimeClassName: x", GroupKind("node.k8s.io", "RuntimeClass"), "x"),
    ],
)
def test_references(text, kind, name):
    assert (kind, "", name) in list(references({"spec": yaml.safe_load(text)}))


def test_o06_webhook_configuration_names_its_service_with_namespace():
    body = {"webhooks": [{"clientConfig": {"service": {"name": "x", "namespace": "y"}}}]}
    assert list(references(body)) == [(GroupKind("", "Service"), "y", "x")]


def test_components_are_connected_by_references():
    nodes = [
        config("a"),
        config("b"),
        node("{apiVersion: apps/v1, kind: Deployment, name: d, spec: {volumes: [{configMap: {name: b}}]}}"),
    ]
    by_name = {nodes[o.position].ref.name: o.component for o in order(nodes, REGISTRY).objects}
    assert by_name["b"] == by_name["d"] != by_name["a"]


def test_custom_resource_belongs_to_its_definition():
    crd = node(
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: t.example.com,"
        " spec: {group: example.com, names: {kind: Thing}}}"
    )
    thing = node("{apiVersion: example.com/v1, kind: Thing, name: t}")
    first, second = order([thing, crd], REGISTRY).objects
    assert (first.position, second.position) == (1, 0)
    assert first.component == second.component


HOOK = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
name: hook
webhooks: [{name: a, clientConfig: {%s}}]
"""
API = "{apiVersion: apiregistration.k8s.io/v1, kind: APIService, name: v1.x.example, spec: {service: {%s}}}"
SERVICE_OF = "name: gate, namespace: ns"
SERVICE = "{apiVersion: v1, kind: Service, name: gate, spec: {selector: {app: gate}}}"
GATE = "{apiVersion: apps/v1, kind: %s, name: gate, spec: {template: {metadata: {labels: {app: %s, more: x}}}}}"
POD = "{apiVersion: v1, kind: Pod, name: gate, metadata: {labels: {app: gate}}}"


@pytest.mark.parametrize(
    ("texts", "waits"),
    [
        pytest.param(
            [HOOK % f"service: {{{SERVICE_OF}}}", SERVICE, GATE % ("Deployment", "gate")], True, id="in the unit"
        ),
        pytest.param([API % SERVICE_OF, SERVICE, GATE % ("StatefulSet", "gate")], True, id="an APIService"),
        pytest.param([HOOK % f"service: {{{SERVICE_OF}}}", SERVICE, POD], True, id="a pod"),
        pytest.param([HOOK % "url: https://gate.example", SERVICE, GATE % ("Deployment", "gate")], False, id="a URL"),
        pytest.param(
            [HOOK % f"service: {{{SERVICE_OF}}}", GATE % ("Deployment", "gate")], False, id="Service elsewhere"
        ),
        pytest.param(
            [HOOK % "service: {name: gate, namespace: other}", SERVICE, GATE % ("Deployment", "gate")],
            False,
            id="a Service of that name elsewhere",
        ),
        pytest.param(
            [HOOK % f"service: {{{SERVICE_OF}}}", SERVICE, GATE % ("Deployment", "other")], False, id="others' pods"
        ),
        pytest.param(
            [HOOK % f"service: {{{SERVICE_OF}}}", "{apiVersion: v1, kind: Service, name: gate}", POD],
            False,
            id="a Service without selector",
        ),
        pytest.param(
            [
                "{apiVersion: admissionregistration.k8s.io/v1, kind: ValidatingWebhookConfiguration, name: h,"
                " webhooks: [1, {clientConfig: {service: 3}}, {}]}"
            ],
            False,
            id="nonsense",
        ),
    ],
)
def test_o06_admission_waits_for_the_workload_behind_it(texts, waits):
    nodes = [node(text) for text in texts]
    first = next(o for o in order(nodes, REGISTRY).objects if o.position == 0)
    assert first.stage is Stage.ADMISSION
    assert first.after_ready == ((nodes[-1].ref,) if waits else ())
    if waits:
        assert len({o.component for o in order(nodes, REGISTRY).objects if o.position != 1}) == 1


def test_o06_an_authors_wish_goes_before_what_would_wait_for_ever():
    gate = GATE.replace("name: gate,", "name: gate, ") % ("Deployment", "gate")
    nodes = [
        node(HOOK % f"service: {{{SERVICE_OF}}}"),
        node(SERVICE),
        node(gate, "ValidatingWebhookConfiguration.admissionregistration.k8s.io/hook"),
    ]
    ordered = order(nodes, REGISTRY).objects
    assert [o.position for o in ordered] == [1, 0, 2]
    assert all(o.after_ready == () for o in ordered)


NIM = "{apiVersion: apps.nvidia.com/v1alpha1, kind: %s, name: %s, spec: {%s}}"


@pytest.mark.parametrize(
    ("kind", "spec", "waits"),
    [
        pytest.param("NIMBuild", "nimCache: {name: model}", True, id="its operator would sleep"),
        pytest.param("NIMBuild", "nimCache: {name: other}", False, id="a cache of others"),
        pytest.param("NIMService", "storage: {nimCache: {name: model}}", False, id="its operator wakes it"),
    ],
)
def test_what_an_operator_does_not_look_at_again_waits_for_what_it_names(kind, spec, waits):
    nodes = [node(NIM % (kind, "x", spec)), node(NIM % ("NIMCache", "model", ""))]
    cache, other = order(nodes, REGISTRY).objects
    assert (cache.position, other.position) == (1, 0), "a cache goes first in any case"
    assert other.after_ready == ((nodes[1].ref,) if waits else ())


def test_o01_a_resource_waits_for_its_definition_in_the_unit():
    crd = node(
        "{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, name: t.example.com,"
        " spec: {group: example.com, names: {kind: Thing}}}"
    )
    _, thing = order([crd, node("{apiVersion: example.com/v1, kind: Thing, name: t}")], REGISTRY).objects
    assert thing.after_ready == (crd.ref,)


def test_dependency_moves_an_object_behind_a_later_stage():
    nodes = [config("z", "Deployment.apps/d"), node("{apiVersion: apps/v1, kind: Deployment, name: d}")]
    ordered = order(nodes, REGISTRY).objects
    assert [nodes[o.position].ref.name for o in ordered] == ["d", "z"]
    assert ordered[1].depends_on == (nodes[1].ref,)


def test_unknown_dependency_and_circle_are_values():
    nodes = [config("a", "ConfigMap/b"), config("b", "ConfigMap/c"), config("c", "ConfigMap/a, Secret/x")]
    result = order(nodes, REGISTRY)
    assert result.unknown == ((2, Dependency("", "Secret", "", "x")),)
    assert sorted(result.cycle) == [0, 1, 2]


edges = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), max_size=12)


@given(edges)
def test_order_respects_every_dependency_or_finds_a_circle(pairs):
    wanted = {i: sorted({b for a, b in pairs if a == i}) for i in range(8)}
    nodes = [config(f"n{i}", ", ".join(f"ConfigMap/n{b}" for b in wanted[i])) for i in range(8)]
    result = order(nodes, REGISTRY)
    places = {o.position: at for at, o in enumerate(result.objects)}
    assert sorted(places) == list(range(8))
    if result.cycle:
        ring = (*result.cycle, result.cycle[0])
        assert all(b in wanted[a] for a, b in itertools.pairwise(ring))
    else:
        assert all(places[b] < places[a] for a in wanted for b in wanted[a])


@given(st.permutations(range(5)))
def test_order_does_not_depend_on_the_order_of_files(permutation):
    names = ["a", "b", "c", "d", "e"]
    nodes = [config(names[i]) for i in permutation]
    assert [nodes[o.position].ref.name for o in order(nodes, REGISTRY).objects] == names


@pytest.mark.parametrize(
    "text", ["", "/", "a/b/c", "0x", "ConfigMap", "ConfigMap/", "ConfigMap/a/b/c", "é/x", "a" * 5000]
)
def test_x07_malformed_dependency(text):
    with pytest.raises(BadAnnotationError):
        parse_dependencies(text)
