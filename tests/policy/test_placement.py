"""Placement: what each cluster is to a workload, and which instances live where."""

from __future__ import annotations

import dataclasses

import pytest

from gitops.model.clusters import Cluster, ClusterSpec, Gpu, InstanceType
from gitops.model.documents import LabelMetadata
from gitops.model.identity import ClusterName, GroupVersionKind, UnitKey, WorkloadKind, WorkloadRef
from gitops.policy.facts import ClusterFacts
from gitops.policy.placement import Placement, Selection, candidates, pins_of, why_none


def cluster(name, **spec):
    metadata = LabelMetadata(name=name)
    return Cluster(
        apiVersion="gitops/v1alpha1", kind="Cluster", metadata=metadata, spec=ClusterSpec(credentials=name, **spec)
    )


CLUSTERS = {
    "a": cluster(
        "a",
        region="North",
        attributes=["X", "fast"],
        gpus=[
            Gpu(
                name="H100",
                instanceTypes=[
                    InstanceType(name="big", gpusPerInstance=8),
                    InstanceType(name="two", gpusPerInstance=2),
                ],
            )
        ],
    ),
    "b": cluster("b", gpus=[Gpu(name="A100")]),
}
A, B = ClusterName("a"), ClusterName("b")


@pytest.mark.parametrize(
    ("selection", "fitting", "reasons"),
    [
        (Selection(), "ab", {}),
        (Selection(clusters=("a",)), "a", {"b": ("not listed under clusters",)}),
        (Selection(clusters=("a", "b")), "ab", {}),
        (Selection(regions=("north",)), "a", {"b": ("its region is not set",)}),
        (Selection(regions=("south", "NORTH")), "a", {"b": ("its region is not set",)}),
        (Selection(regions=("south",)), "", {"a": ("its region is North",), "b": ("its region is not set",)}),
        (Selection(attributes=("x",)), "a", {"b": ("lacks attribute x",)}),
        (Selection(attributes=("X", "FAST")), "a", {"b": ("lacks attribute FAST, X",)}),
        (Selection(attributes=("x", "slow")), "", {"a": ("lacks attribute slow",), "b": ("lacks attribute slow, x",)}),
        (Selection(gpu="h100"), "a", {"b": ("has no GPU h100",)}),
        (Selection(gpu="H100", instance_type="BIG"), "a", {"b": ("has no GPU H100",)}),
        (
            Selection(gpu="H100", instance_type="huge"),
            "",
            {"a": ("has no instance type huge",), "b": ("has no GPU H100",)},
        ),
        (
            Selection(clusters=("a",), regions=("north",), attributes=("X",), gpu="H100"),
            "a",
            {
                "b": (
                    "not listed under clusters",
                    "its region is not set",
                    "lacks attribute X",
                    "has no GPU H100",
                )
            },
        ),
    ],
)
def test_every_reason_against_a_cluster_is_told(selection, fitting, reasons):
    found = candidates(selection, CLUSTERS)
    assert "".join(c.cluster for c in found if c.fits) == fitting
    assert {c.cluster: c.reasons for c in found if c.reasons} == reasons


def test_no_cluster_at_all_is_said():
    assert why_none(candidates(Selection(), {})) == "there is no cluster"
    assert why_none(candidates(Selection(gpu="T4"), CLUSTERS)) == "a: has no GPU T4; b: has no GPU T4"


@pytest.mark.parametrize(("gpu", "kind", "gpus"), [("h100", "BIG", 8), ("H100", "two", 2), ("H100", None, 1)])
def test_gpus_of_an_instance(gpu, kind, gpus):
    assert candidates(Selection(gpu=gpu, instance_type=kind), CLUSTERS)[0].gpus == gpus


GRAPH = GroupVersionKind("nvidia.com", "v1beta1", "DynamoGraphDeployment")
OLD_GRAPH = GroupVersionKind("nvidia.com", "v1alpha1", "DynamoGraphDeployment")
ASKS = Selection(versions=(("dynamo", ">=1.5"),), operators=("dynamo",), kinds=frozenset({GRAPH}))
KNOWN = {(A, "dynamo"): "1.5.0"}


@pytest.mark.parametrize(
    ("versions", "facts", "is_open", "reason"),
    [
        (KNOWN, ClusterFacts(), True, None),
        (KNOWN, ClusterFacts(served={GRAPH: True}), True, None),
        (
            KNOWN,
            ClusterFacts(served={OLD_GRAPH: True}),
            False,
            "does not serve nvidia.com/v1beta1 DynamoGraphDeployment",
        ),
        (KNOWN, ClusterFacts(served={}, silent=frozenset({"nvidia.com/v1beta1"})), True, None),
        (KNOWN, ClusterFacts(served={}), False, "does not serve nvidia.com/v1beta1 DynamoGraphDeployment"),
        ({(A, "dynamo"): "1.4"}, ClusterFacts(), False, "its dynamo 1.4 is not >=1.5"),
        ({}, ClusterFacts(), False, "nothing says which version of dynamo it has"),
        (KNOWN, ClusterFacts(refused={"dynamo": "a *"}), False, "dynamo may not be used there: a *"),
        (KNOWN, ClusterFacts(refused={"nim": "a *"}), True, None),
    ],
)
def test_what_is_found_out_closes_a_cluster_for_new_instances_only(versions, facts, is_open, reason):
    found = candidates(ASKS, CLUSTERS, versions, {A: facts})[0]
    assert found.fits
    assert found.open == is_open
    assert found.reasons == (() if reason is None else (reason,))


def test_a_paused_cluster_is_known_as_such():
    found = candidates(Selection(), {"a": cluster("a", mode="paused"), "b": cluster("b", mode="report")})
    assert [(c.open, c.paused) for c in found] == [(True, True), (True, False)]


# -- pins -------------------------------------------------------------------------------------------------------------

CHAT = UnitKey.parse("function/chat/h100-0@a")


def test_pins_come_from_keys_alone():
    keys = ["function/chat/h100-0@a", "function/chat/h100-large-2@b", "bundle/base@a", "task/bake@b"]
    assert pins_of(map(UnitKey.parse, keys)) == {
        (CHAT.workload, "h100"): {Placement(0, A)},
        (CHAT.workload, "h100-large"): {Placement(2, B)},
        (WorkloadRef(WorkloadKind.BUNDLE, "base"), ""): {Placement(0, A)},
        (WorkloadRef(WorkloadKind.TASK, "bake"), ""): {Placement(0, B)},
    }


@pytest.mark.parametrize(
    "instance", ["h100", "h100-", "h100-x", "-1x", "h100-٣", "h100-" + "9" * 5_000], ids=str.__len__
)
def test_what_is_no_index_pins_nothing(instance):
    assert pins_of([dataclasses.replace(CHAT, instance=instance)]) == {}


def test_an_instance_on_two_clusters_is_known_on_both_whatever_the_order():
    twin = dataclasses.replace(CHAT, cluster=B)
    both = {(CHAT.workload, "h100"): {Placement(0, A), Placement(0, B)}}
    assert pins_of([twin, CHAT]) == pins_of([CHAT, twin]) == both
