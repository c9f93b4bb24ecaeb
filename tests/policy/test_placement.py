"""Placement: deterministic, even, stable."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.model.clusters import Cluster, ClusterSpec, Gpu, InstanceType
from gitops.model.documents import LabelMetadata
from gitops.model.identity import ClusterName, WorkloadKind, WorkloadRef
from gitops.policy.placement import Selection, eligible, place, place_on_each

CHAT = WorkloadRef(WorkloadKind.FUNCTION, "chat")
names = st.sets(st.sampled_from([ClusterName(f"c{i}") for i in range(12)]), min_size=1)


def spread(count, clusters, pins=None, **more):
    return place(workload=CHAT, spec_id="h100", count=count, clusters=clusters, pins=pins or {}, **more)


def pins_of(placements):
    return {p.index: p.cluster for p in placements}


@given(names, st.integers(0, 30))
def test_instances_are_spread_evenly(clusters, count):
    placements = spread(count, clusters)
    assert [p.index for p in placements] == list(range(count))
    load = Counter(p.cluster for p in placements)
    sizes = [load[c] for c in clusters]
    assert max(sizes) - min(sizes) <= 1


@given(names, st.integers(0, 30))
def test_order_of_clusters_does_not_matter(clusters, count):
    assert spread(count, sorted(clusters)) == spread(count, sorted(clusters, reverse=True))


@given(names, names, st.integers(0, 30))
def test_a_new_cluster_moves_nothing_that_is_pinned(clusters, joined, count):
    before = spread(count, clusters)
    assert spread(count, clusters | joined, pins_of(before)) == before


@given(names, st.integers(0, 20), st.integers(0, 20))
def test_scaling_down_removes_the_highest_and_up_adds_above(clusters, one, other):
    small, large = sorted((one, other))
    full = spread(large, clusters)
    assert spread(small, clusters, pins_of(full)) == full[:small]
    part = spread(small, clusters)
    assert spread(large, clusters, pins_of(part))[:small] == part


@given(names, st.integers(1, 20), st.data())
def test_only_instances_of_a_removed_cluster_move(clusters, count, data):
    before = spread(count, clusters)
    gone = data.draw(st.sampled_from(sorted(clusters)))
    rest = clusters - {gone}
    after = spread(count, rest, pins_of(before))
    if rest:
        moved = [p.index for p, q in zip(before, after, strict=True) if p != q]
        assert all(before[i].cluster == gone for i in moved)
    else:
        assert after == ()


@given(names, st.integers(1, 20), st.data())
def test_unreadable_cluster_keeps_its_pins_and_nothing_new_is_placed(clusters, count, data):
    before = spread(count, clusters)
    hidden = data.draw(st.sampled_from(sorted(clusters)))
    after = spread(count + 3, clusters - {hidden}, pins_of(before), keep_pins_on=[hidden], place_new=False)
    assert after == before


def test_different_workloads_start_on_different_clusters():
    clusters = [ClusterName(f"c{i}") for i in range(4)]
    first = Counter(
        place(workload=WorkloadRef(WorkloadKind.FUNCTION, f"f{i}"), spec_id="s", count=1, clusters=clusters, pins={})[
            0
        ].cluster
        for i in range(400)
    )
    assert all(60 < first[c] < 140 for c in clusters)


def test_on_each_cluster():
    placed = place_on_each(count=2, clusters=[ClusterName("b"), ClusterName("a")])
    assert [(p.index, p.cluster) for p in placed] == [(0, "a"), (0, "b"), (1, "a"), (1, "b")]


def cluster(name, **spec):
    metadata = LabelMetadata(name=name)
    return Cluster(
        apiVersion="gitops/v1alpha1", kind="Cluster", metadata=metadata, spec=ClusterSpec(credentials=name, **spec)
    )


CLUSTERS = {
    "a": cluster(
        "a", region="north", attributes=["X"], gpus=[Gpu(name="H100", instanceTypes=[InstanceType(name="big")])]
    ),
    "b": cluster("b", gpus=[Gpu(name="A100")]),
}


@pytest.mark.parametrize(
    ("selection", "found", "reason"),
    [
        (Selection(), ("a", "b"), None),
        (Selection(clusters=["a"]), ("a",), "b: not listed under clusters"),
        (Selection(regions=["north"]), ("a",), "b: its region is not set"),
        (Selection(attributes=["X"]), ("a",), "b: lacks attribute X"),
        (Selection(gpu="h100"), ("a",), "b: has no GPU h100"),
        (Selection(gpu="H100", instance_type="BIG"), ("a",), "b: has no GPU H100"),
        (Selection(gpu="H100", instance_type="huge"), (), "a: has no instance type huge; b: has no GPU H100"),
    ],
)
def test_eligibility(selection, found, reason):
    result = eligible(selection, CLUSTERS)
    assert result.clusters == found
    assert reason is None or reason in result.why_none()


def test_no_cluster_at_all_is_said():
    assert eligible(Selection(), {}).why_none() == "there is no cluster"
