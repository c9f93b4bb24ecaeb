"""Which refusals are about fields that cannot change, and what is never deleted for them."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import Path
from gitops.model.findings import Origin
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.overlays.provenance import Provenance
from gitops.plan.immutable import fields_in_the_way, recreates, sentence, under_another_name
from gitops.plan.units import DesiredObject, Handling, Stage

INVALID, FORBIDDEN = "FieldValueInvalid", "FieldValueForbidden"
IMAGE: Path = ("spec", "template", "spec", "containers", 0, "image")
TEXT = "spec.template.spec.containers[0].image"


@pytest.mark.parametrize(
    ("causes", "changed", "found"),
    [
        ([(INVALID, "spec.template")], [IMAGE], (TEXT,)),
        ([(FORBIDDEN, "spec")], [IMAGE, ("metadata", "labels", "a")], (TEXT,)),
        ([(FORBIDDEN, "data")], [("data", "a.b")], ("data.a.b",)),
        ([(INVALID, "roleRef.name")], [("roleRef",)], ("roleRef",)),  # a cause below what changes
        ([(INVALID, "spec.templates")], [IMAGE], ()),  # no parent, only the beginning of a name
        ([(INVALID, "spec.template"), (INVALID, "spec.other")], [IMAGE], ()),  # one cause is about something else
        ([("FieldValueRequired", "spec.template")], [IMAGE], ()),
        ([(INVALID, "")], [IMAGE], ()),
        ([(INVALID, "spec.template")], [], ()),
        ([], [IMAGE], ()),
    ],
)
def test_each_cause_must_name_what_would_change(
    causes: list[tuple[str, str]], changed: list[Path], found: tuple[str, ...]
) -> None:
    assert fields_in_the_way(causes, changed) == found


def desired(api: str, kind: str, name: str = "thing", *, handling: Handling | None = None, **notes: str):
    body: dict[str, Any] = {"apiVersion": api, "kind": kind, "metadata": {"name": name, "annotations": notes}}
    gvk, origin, payload = GroupVersionKind.parse(api, kind), Origin("a.yaml", 1), canonical_json(body)
    return DesiredObject(
        ObjectRef(gvk.group, kind, "demo", name),
        gvk,
        payload,
        digest(payload),
        origin,
        Provenance.build({}, origin),
        Stage.CONFIG,
        handling=handling or Handling(recreate=True),
    )


def held(item: DesiredObject) -> str:
    return "what is in it" if item.ref.kind in ("PersistentVolumeClaim", "NIMCache") else ""


CONSENT = {"gitops/allow-delete": "true"}


@pytest.mark.parametrize(
    ("item", "allowed"),
    [
        (desired("batch/v1", "Job"), True),
        (desired("batch/v1", "Job", handling=Handling()), False),
        (desired("v1", "Namespace", **CONSENT), False),
        (desired("apiextensions.k8s.io/v1", "CustomResourceDefinition", **CONSENT), False),
        (desired("v1", "PersistentVolumeClaim"), False),
        (desired("v1", "PersistentVolumeClaim", **CONSENT), True),
        (desired("apps.nvidia.com/v1alpha1", "NIMCache"), False),
        (desired("nvidia.com/v1beta1", "DynamoGraphDeploymentRequest", handling=Handling((), True, True)), False),
    ],
)
def test_what_may_be_made_anew(item: DesiredObject, allowed: bool) -> None:
    assert recreates(item, holds=held(item)) is allowed


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (desired("batch/v1", "Job"), ("spec.a cannot change", "gitops/recreate")),
        (desired("apps/v1", "StatefulSet"), ("--cascade=orphan", "claims keep their size")),
        (desired("v1", "PersistentVolumeClaim"), ("gitops/recreate", "gitops/allow-delete")),
        (desired("v1", "Namespace"), ("never done by itself",)),
        (desired("x/v1", "Run", handling=Handling(once=True)), ("new name",)),
    ],
)
def test_the_sentence_says_what_to_do(item: DesiredObject, words: tuple[str, ...]) -> None:
    said = sentence(item, ["spec.a"], holds=held(item))
    assert all(word in said for word in words)
    assert "and 2 more" in sentence(item, [f"spec.f{n}" for n in range(7)])


@pytest.mark.parametrize("name", ["a", "a" * 63, "a-b." * 20 + "c"])
def test_the_other_name_is_one_and_short(name: str) -> None:
    item = desired("batch/v1", "Job", name)
    other = under_another_name(item)
    assert other.ref.name == other.body["metadata"]["name"] != name
    assert len(other.ref.name) <= 49
    assert other.ref.name.replace("-", "").replace(".", "").isalnum()
    assert item.body["metadata"]["name"] == name
