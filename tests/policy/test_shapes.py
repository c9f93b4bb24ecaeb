"""Which lists have keys: the shipped tables against their sources, and definitions however they are written."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from controlplane_kit.plugin import PrivateApi

from gitops.model.identity import GroupVersionKind
from gitops.overlays.shapes import PLAIN, ListKind, Shape
from gitops.policy.registry import OperatorRegistry, shipped_folder
from gitops.policy.schemas.shapes import SchemaIndex, read_table, shape_of_schema, shapes_of_definition

ROOT = Path(__file__).resolve().parents[2]
SCHEMAS = OperatorRegistry.shipped().schemas
DGD = "DynamoGraphDeployment"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("list_schemas", ROOT / "scripts" / "list_schemas.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def shape(api_version: str, kind: str, *path: str) -> Shape:
    """What is known at a path of a kind; `*` steps into a list's items."""
    found = SCHEMAS.shape(GroupVersionKind.parse(api_version, kind))
    assert found is not None
    for segment in path:
        if segment == "*":
            assert found.items is not None
            found = found.items
        else:
            found = found.below(segment)
    return found


def test_the_table_of_kubernetes_kinds_is_that_of_a_real_api_server(
    script: ModuleType, private_api: PrivateApi
) -> None:
    # Not a shared one: a definition that another test takes away is a 404 between the list and the read.
    text = (script.SCHEMAS / "kubernetes.yaml").read_text(encoding="utf-8")
    assert text == script.table(script.kubernetes_kinds(private_api()), script.KUBERNETES)


def test_the_table_of_the_operators_kinds_is_that_of_their_definitions(script: ModuleType, shared: Path) -> None:
    text = (script.SCHEMAS / "operators.yaml").read_text(encoding="utf-8")
    assert text == script.table(script.operators_kinds(shared / "upstream"), script.OPERATORS)


@pytest.mark.upstream
def test_a_table_says_the_same_as_what_it_was_made_from(script: ModuleType, shared: Path) -> None:
    kinds = script.operators_kinds(shared / "upstream")
    assert read_table(script.table(kinds, "x").encode(), "x.yaml") == kinds


def test_the_tables_are_small() -> None:
    folder = shipped_folder("policies") / "schemas"
    assert sum(len(file.read_bytes()) for file in folder.iterdir()) < 50_000


def test_every_kind_of_an_operator_type_but_foreign_ones_is_known() -> None:
    for operator in OperatorRegistry.shipped().types.values():
        for kind in (*operator.spec.kinds, *operator.spec.companions):
            known = SCHEMAS.shape(GroupVersionKind(kind.group, kind.version, kind.kind)) is not None
            assert known is (kind.kind not in ("ComputeDomain", "LeaderWorkerSet")), kind


@pytest.mark.parametrize(
    ("api_version", "kind", "path", "keys", "defaults"),
    [
        ("apps/v1", "Deployment", "spec template spec containers", ("name",), {}),
        ("apps/v1", "Deployment", "spec template spec containers * env", ("name",), {}),
        (
            "apps/v1",
            "StatefulSet",
            "spec template spec initContainers * ports",
            ("containerPort", "protocol"),
            {"protocol": "TCP"},
        ),
        ("batch/v1", "CronJob", "spec jobTemplate spec template spec volumes", ("name",), {}),
        ("v1", "Service", "spec ports", ("port", "protocol"), {"protocol": "TCP"}),
        ("nvidia.com/v1beta1", DGD, "spec components", ("name",), {}),
        ("nvidia.com/v1beta1", DGD, "spec components * podTemplate spec containers * env", ("name",), {}),
        ("nvidia.com/v1alpha1", DGD, "spec services decode extraPodSpec containers", ("name",), {}),
        ("grove.io/v1alpha1", "PodCliqueSet", "spec template cliques * spec podSpec containers", ("name",), {}),
    ],
)
def test_keyed_lists(api_version: str, kind: str, path: str, keys: tuple[str, ...], defaults: dict[str, Any]) -> None:
    found = shape(api_version, kind, *path.split())
    assert (found.kind, found.keys, dict(found.defaults)) == (ListKind.MAP, keys, defaults)


@pytest.mark.parametrize(
    ("api_version", "kind", "path"),
    [
        ("apps/v1", "Deployment", "spec template spec containers * args"),
        ("apps/v1", "Deployment", "spec template spec tolerations"),
        ("apps/v1", "Deployment", "metadata finalizers"),
        ("apps/v1", "Deployment", "status conditions"),
        ("v1", "ServiceAccount", "imagePullSecrets"),
        ("v1", "ConfigMap", "data"),
        ("nvidia.com/v1beta1", DGD, "spec env"),
        ("apps.nvidia.com/v1alpha1", "NIMService", "spec env"),
    ],
)
def test_other_lists_are_replaced(api_version: str, kind: str, path: str) -> None:
    assert shape(api_version, kind, *path.split()) is PLAIN


def test_sets() -> None:
    assert shape("v1", "Node", "spec", "podCIDRs").kind is ListKind.SET


def test_unknown_kinds_and_versions_have_no_schema() -> None:
    assert SCHEMAS.shape(GroupVersionKind("apps", "v1beta1", "Deployment")) is None
    assert SCHEMAS.shape(GroupVersionKind("example.com", "v1", "Deployment")) is None


# -- digest ----------------------------------------------------------------------------------------------------------

TABLE = b"structures: {}\nkinds:\n  example.com/v1 Thing:\n    /spec/list: {keys: [name]}\n"


def test_what_the_tables_say_is_part_of_the_policy_digest(tmp_path: Path) -> None:
    shipped = OperatorRegistry.shipped()
    (tmp_path / "a.yaml").write_bytes(TABLE)
    first = SchemaIndex.load(tmp_path)
    (tmp_path / "a.yaml").write_bytes(TABLE.replace(b"name", b"id"))
    second = SchemaIndex.load(tmp_path)
    digests = {OperatorRegistry.of(shipped.types.values(), s).policy_digest for s in (SCHEMAS, first, second)}
    assert len(digests) == 3
    assert OperatorRegistry.of(shipped.types.values(), SCHEMAS).policy_digest == shipped.policy_digest
    assert shipped.extended([]).schemas is shipped.schemas


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (b"a: [", ValueError),
        (b"kinds: {}", KeyError),
        (b"structures: {}\nkinds: {v1 A: {/x: Unknown}}", KeyError),
        (b"structures: {}\nkinds: {v1 A: {/x: {items: Unknown, keys: [a]}}}", KeyError),
    ],
)
def test_a_wrong_table_is_refused(text: bytes, error: type[Exception]) -> None:
    with pytest.raises(error):
        read_table(text, "x.yaml")


# -- definitions -----------------------------------------------------------------------------------------------------


def definition(schema: Any, **spec: Any) -> dict[str, Any]:
    version = {"name": "v1", "schema": {"openAPIV3Schema": schema}}
    return {"spec": {"group": "example.com", "names": {"kind": "Thing"}, "versions": [version], **spec}}


THING = GroupVersionKind("example.com", "v1", "Thing")
KEYED = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["id", "zone"],
    "items": {"type": "object", "properties": {"id": {"type": "string"}, "zone": {"default": "a"}}},
}


def test_definitions_extend_the_index_and_win() -> None:
    extended = SCHEMAS.extended([definition({"properties": {"spec": {"properties": {"list": KEYED}}}})])
    found = extended.shape(THING)
    assert found is not None
    assert found.below("spec").below("list") == Shape(kind=ListKind.MAP, keys=("id", "zone"), defaults={"zone": "a"})
    assert extended.shape(GroupVersionKind("", "v1", "Service")) == SCHEMAS.shape(GroupVersionKind("", "v1", "Service"))
    own = definition({"properties": {"spec": {}}}, group="", names={"kind": "Service"})
    assert SCHEMAS.extended([own]).shape(GroupVersionKind("", "v1", "Service")) == PLAIN


def test_atomic_maps_and_lists_hide_what_is_in_them() -> None:
    schema = {
        "properties": {
            "atomic": {"x-kubernetes-map-type": "atomic", "properties": {"list": KEYED}},
            "granular": {"x-kubernetes-map-type": "granular", "properties": {"list": KEYED}},
            "plain": {"type": "array", "items": {"properties": {"list": KEYED}}},
            "any": {"additionalProperties": {"properties": {"list": KEYED}}},
            "all": {"additionalProperties": True},
        }
    }
    found = shape_of_schema(schema)
    assert set(found.fields) == {"granular", "any"}
    assert found.below("any").below("whatever").below("list").keys == ("id", "zone")


@pytest.mark.parametrize(
    "schema",
    [
        None,
        "text",
        {},
        {"properties": None},
        {"properties": {"a": None, "b": 1, "c": []}},
        {"properties": {"a": {"items": 1, "x-kubernetes-list-type": "map"}}},
        {"properties": {"a": {"items": {}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": "name"}}},
        {"properties": {"a": {"items": {}, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [1]}}},
        {"properties": {"a": {"$ref": 1}, "b": {"$ref": "#/x"}, "c": {"allOf": 1}}},
    ],
)
def test_a_malformed_definition_says_nothing_of_lists(schema: Any) -> None:
    assert [found for _, found in shapes_of_definition(definition(schema))] in ([], [PLAIN])


@pytest.mark.parametrize("spec", [None, 1, {}, {"versions": 1}, {"versions": [1]}, {"versions": [{"name": 1}]}])
def test_a_definition_without_versions_has_no_kinds(spec: Any) -> None:
    assert list(shapes_of_definition({"spec": spec})) == []
