"""Leaving leaves out of what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import Path
from gitops.model.findings import Origin
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.overlays.provenance import Provenance
from gitops.plan.sending import LeftOut, Why, as_sent, in_order
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


def test_of_one_path_the_first_reason_is_kept_and_positions_and_keys_are_sorted_together() -> None:
    field, item = LeftOut(("a", "b"), Why.ASKED), LeftOut(("a", 0), Why.YIELDED)
    assert in_order([field, item]) == (item, field) == in_order([item, field])
    assert in_order([LeftOut(("a",), Why.ASKED), LeftOut(("a",), Why.YIELDED)]) == (LeftOut(("a",), Why.ASKED),)
