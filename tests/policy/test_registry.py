"""The shipped operator types, against the operators' own CRDs and the recordings of what they make."""

from __future__ import annotations

import gzip
import json
from importlib.resources.abc import Traversable

import pytest
import yaml

from gitops.model.identity import GroupKind, GroupVersionKind
from gitops.model.onboarding import SECTIONS
from gitops.model.operators import OperatorType
from gitops.policy.registry import OperatorRegistry, shipped_folder
from gitops.policy.scopes import builtin_namespaced

DGD = GroupVersionKind("nvidia.com", "v1beta1", "DynamoGraphDeployment")


@pytest.fixture
def registry():
    return OperatorRegistry.shipped()


def small(name="x", group="example.com"):
    return OperatorType.model_validate(
        {
            "apiVersion": "gitops/v1alpha1",
            "kind": "OperatorType",
            "metadata": {"name": name},
            "spec": {
                "clusterAttribute": "X",
                "kinds": [{"group": group, "version": "v1", "kind": "Thing", "resource": "things"}],
                "children": [
                    {
                        "group": "",
                        "version": "v1",
                        "kind": "Pod",
                        "resource": "pods",
                        "selector": "a",
                        "role": "inform",
                    },
                    {"group": "", "version": "v1", "kind": "Pod", "resource": "pods", "selector": "a", "role": "gate"},
                ],
            },
        }
    )


def test_shipped_types(registry):
    assert list(registry.types) == ["dynamo", "grove", "leaderworkerset", "nim"]
    assert registry.kind(DGD) is not None
    assert registry.kind(GroupVersionKind("nvidia.com", "v9", "DynamoGraphDeployment")) is None


def test_caches_go_early(registry):
    early = {k.kind for t in registry.types.values() for k in t.spec.kinds if k.early}
    assert early == {"NIMCache", "DynamoCheckpoint"}


def test_kinds_that_operators_make_are_not_for_functions(registry):
    allowed = {g.kind for g in registry.allowed(["dynamo", "nim"])}
    made = {"DynamoComponentDeployment", "DynamoGraphDeploymentScalingAdapter", "PodCliqueSet", "Deployment", "Pod"}
    assert not allowed & made
    assert "ConfigMap" in allowed


def test_unknown_names_add_nothing(registry):
    assert registry.allowed(["nothing"]) == {}
    assert registry.children_of(["nothing"]) == ()


def test_strongest_role_wins():
    assert [c.role for c in OperatorRegistry.of([small()]).children_of(["x"])] == ["gate"]


def onboarded(**spec):
    """The small type with the checklist of another, and `spec` over it."""
    dynamo = OperatorRegistry.shipped().types["dynamo"].model_dump(mode="json", exclude_unset=True)["spec"]
    body = small().model_dump(mode="json", exclude_unset=True)
    body["spec"] |= {name: dynamo[name] for name in SECTIONS} | spec
    return OperatorType.model_validate(body)


def test_extended_registry_has_another_digest(registry):
    more = registry.extended([onboarded()])
    assert set(more.types) == {*registry.types, "x"}
    assert more.policy_digest != registry.policy_digest
    assert OperatorRegistry.of(registry.types.values(), registry.schemas).policy_digest == registry.policy_digest


@pytest.mark.parametrize("other", [small("x", "other.com"), small("y")], ids=["name-twice", "kind-twice"])
def test_registry_refuses_two_of_one(other):
    with pytest.raises(ValueError, match=r"twice|two operator types"):
        OperatorRegistry.of([small(), other])


@pytest.mark.parametrize("section", SECTIONS)
def test_a_type_without_its_whole_checklist_is_refused(registry, tmp_path, section):
    body = onboarded().model_dump(mode="json", exclude_unset=True)
    del body["spec"][section]
    lacking = OperatorType.model_validate(body)
    with pytest.raises(ValueError, match=f"'x' lacks {section}"):
        registry.extended([lacking])
    (tmp_path / "x.yaml").write_text(yaml.safe_dump(body))
    with pytest.raises(ValueError, match=f"'x' lacks {section}"):
        OperatorRegistry.load(tmp_path)


def test_a_type_with_a_rule_that_is_no_cel_is_refused(registry):
    rule = {"id": "r", "group": "example.com", "kind": "Thing", "rule": "self.", "message": "m", "source": "s"}
    with pytest.raises(ValueError, match=r"Syntax error|no viable"):
        registry.extended([onboarded(rules=[rule])])


def test_status_mappings_of_the_checklists_exist(registry):
    known = set()
    for file in (shipped_folder("policies") / "status").iterdir():
        known |= {document["metadata"]["name"] for document in yaml.safe_load_all(file.read_text())}
    for operator in registry.types.values():
        assert set(operator.spec.observe.statusMappings) <= known


def test_definitions_are_named_by_kind(registry):
    assert registry.types["grove"].spec.definitions == ("podcliquesets.grove.io",)
    assert "nimcaches.apps.nvidia.com" in registry.types["nim"].spec.definitions


def test_load_refuses_a_broken_file(tmp_path):
    (tmp_path / "bad.yaml").write_text("a: [\n")
    with pytest.raises(ValueError, match=r"bad\.yaml"):
        OperatorRegistry.load(tmp_path)


def test_policies_are_found_in_checkout_and_wheel(monkeypatch, tmp_path):
    assert isinstance(shipped_folder("policies"), Traversable)
    package = tmp_path / "gitops"
    (package / "_data" / "policies" / "operators").mkdir(parents=True)
    monkeypatch.setattr("gitops.policy.registry.files", lambda _: package)
    assert shipped_folder("policies") == package / "_data" / "policies"
    with pytest.raises(FileNotFoundError):
        shipped_folder("nothing")


@pytest.mark.parametrize(
    ("kind", "namespaced"),
    [
        (GroupKind("", "Namespace"), False),
        (GroupKind("", "Pod"), True),
        (GroupKind("rbac.authorization.k8s.io", "ClusterRole"), False),
        (GroupKind("example.com", "Pod"), None),
    ],
)
def test_scope_of_builtin_kinds(kind, namespaced):
    assert builtin_namespaced(kind) is namespaced


@pytest.mark.upstream
def test_kinds_are_those_of_the_upstream_crds(registry, shared):
    served = {}
    for file in sorted(shared.glob("upstream/*/crds*/*.yaml")):
        for crd in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader):
            spec = crd["spec"]
            for version in spec["versions"]:
                gvk = GroupVersionKind(spec["group"], version["name"], spec["names"]["kind"])
                served[gvk] = (spec["names"]["plural"], spec["scope"])
    groups = {g.group for g in served}
    for operator in registry.types.values():
        for kind in (k for k in (*operator.spec.kinds, *operator.spec.children) if k.group in groups):
            gvk = GroupVersionKind(kind.group, kind.version, kind.kind)
            assert served[gvk][0] == kind.resource, gvk
            assert getattr(kind, "scope", "Namespaced") == served[gvk][1]


@pytest.mark.upstream
@pytest.mark.parametrize(
    ("recording", "operator", "roots"),
    [("dynamo-graph", "dynamo", {"DynamoGraphDeployment"}), ("nim-service", "nim", {"NIMService", "NIMCache"})],
)
def test_selectors_find_every_owned_object_that_was_recorded(registry, shared, recording, operator, roots):
    selectors = {}
    for child in registry.children_of([operator]):
        selectors.setdefault(GroupVersionKind(child.group, child.version, child.kind), []).append(child.selector)
    missed = set()
    with gzip.open(shared / "recordings" / f"{recording}.jsonl.gz") as lines:
        for line in lines:
            item = json.loads(line)["object"]
            labels = item["metadata"].get("labels") or {}
            gvk = GroupVersionKind.parse(item["apiVersion"], item["kind"])
            owned = item["metadata"].get("ownerReferences") and gvk.kind not in roots
            if owned and not any(matches(selector, labels) for selector in selectors.get(gvk, ())):
                missed.add(gvk.kind)
    assert missed <= {"ServiceAccount", "Role", "RoleBinding"}


def matches(selector, labels):
    if not selector:
        return True
    key, _, value = selector.partition("=")
    return labels.get(key) == value if value else key in labels
