"""Leaving leaves out of what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import Path
from gitops.model.findings import Origin
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.overlays.provenance import Provenance
from gitops.plan.sending import LeftOut, Why, as_sent, composed
from gitops.plan.units import DesiredObject, Stage


def desired(body: dict[str, Any]) -> DesiredObject:
    origin = Origin("a.yaml", 1)
    payload = canonical_json(body)
    return DesiredObject(
        ref=ObjectRef("apps", "Deployment", "demo", "web"),
        gvk=GroupVersionKind("apps", "v1", "Deployment"),
        payload=payload,
        digest=digest(payload),
        origin=origin,
        provenance=Provenance.build({}, origin),
        stage=Stage.WORKLOAD,
    )


BODY = {"spec": {"replicas": 3, "limits": {"cpu": "1"}, "containers": [{"name": "main", "resources": {"cpu": "1"}}]}}


@pytest.mark.parametrize(
    ("path", "left"),
    [
        (("spec", "replicas"), {"spec": {"limits": {"cpu": "1"}, "containers": BODY["spec"]["containers"]}}),
        (("spec", "limits", "cpu"), {"spec": {"replicas": 3, "containers": BODY["spec"]["containers"]}}),
        (
            ("spec", "containers", 0, "resources", "cpu"),
            {"spec": {"replicas": 3, "limits": {"cpu": "1"}, "containers": [{"name": "main"}]}},
        ),
        (("spec", "containers", 0), BODY),  # never a whole item of a list
        (("spec", "nothing"), BODY),
        (("spec", "containers", 7, "name"), BODY),
        ((), BODY),
    ],
)
def test_a_leaf_goes_with_the_maps_that_it_leaves_empty_and_no_more(path: Path, left: dict[str, Any]) -> None:
    whole = desired(BODY)
    sent = as_sent(whole, [LeftOut(path, Why.YIELDED)])
    assert sent.body == left
    assert sent.digest == digest(canonical_json(left))
    assert whole.body == BODY


def test_with_nothing_left_out_it_is_the_very_object() -> None:
    whole = desired(BODY)
    assert as_sent(whole, []) is whole
    assert as_sent(whole, [LeftOut(("spec", "nothing"), Why.YIELDED)]) is whole


def test_each_source_replaces_only_what_it_said_itself() -> None:
    replicas, cpu, image = ("spec", "replicas"), ("spec", "limits", "cpu"), ("spec", "containers", 0, "image")
    have = (LeftOut(cpu, Why.ASKED), LeftOut(replicas, Why.YIELDED, "hpa"))
    left = composed(have, [LeftOut(image, Why.YIELDED), LeftOut(cpu, Why.YIELDED)], {Why.YIELDED})
    assert left == (LeftOut(image, Why.YIELDED), LeftOut(cpu, Why.YIELDED))
    assert composed(left, [], {Why.YIELDED}) == ()
    assert composed(have, have, set(Why)) == have


def test_positions_and_keys_are_sorted_together() -> None:
    mixed = [LeftOut(("a", "b"), Why.ASKED), LeftOut(("a", 0), Why.ASKED)]
    assert composed((), mixed, set(Why)) == tuple(reversed(mixed)) == composed((), reversed(mixed), set(Why))
