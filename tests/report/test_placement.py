"""Why instances are where they are, in words and for programs."""

from __future__ import annotations

import pytest

from gitops.model.identity import ClusterName, WorkloadKind, WorkloadRef
from gitops.policy.allocation import Ask, Decision, allocate
from gitops.policy.placement import Candidate, Placement
from gitops.report.placement import amount, cluster_lines, placement_json, title, worth_telling

CHAT = WorkloadRef(WorkloadKind.FUNCTION, "chat")
BASE = WorkloadRef(WorkloadKind.BUNDLE, "base")
A, B, C = (ClusterName(name) for name in "abc")


def decided(*candidates, count=1, capacity=None, workload=CHAT, per_cluster=False, spec_id="h100", **more):
    ask = Ask(workload, spec_id, count, per_cluster, candidates, gpu="h100", **more)
    (placed,) = allocate([ask], capacity or {}).values()
    return Decision(ask, placed)


def words(decision):
    numbered = decision.ask.workload.kind is WorkloadKind.FUNCTION
    return {line.cluster: line.words(numbered=numbered) for line in cluster_lines(decision)}


def pins(*pairs):
    return frozenset(Placement(index, ClusterName(cluster)) for index, cluster in pairs)


FREE = Candidate(A, gpus=2)
FULL = {(A, "h100"): 3, (B, "h100"): 1}


@pytest.mark.parametrize(
    ("decision", "expected"),
    [
        (decided(FREE, count=2), {"a": "#0, #1 new"}),
        (decided(FREE, count=2, pins=pins((0, "a"))), {"a": "#0 live here; #1 new"}),
        (decided(FREE, count=1, pins=pins((0, "a"), (1, "a"))), {"a": "#0 live here; #1 leaving"}),
        (
            decided(FREE, Candidate(B, unfit=("lacks attribute X", "has no GPU H100"))),
            {"a": "#0 new", "b": "no: lacks attribute X; has no GPU H100"},
        ),
        (
            decided(FREE, Candidate(B, closed=("does not serve x",), unmet=("its dynamo 1 is not 2",))),
            {"a": "#0 new", "b": "nothing new: its dynamo 1 is not 2; does not serve x"},
        ),
        (
            decided(Candidate(A, closed=("does not serve x",)), pins=pins((0, "a"))),
            {"a": "#0 live here; but: does not serve x"},
        ),
        (
            decided(FREE, Candidate(B), pins=pins((0, "a"))),
            {"a": "#0 live here", "b": "nothing new: others come first by load and hash"},
        ),
        (decided(FREE, Candidate(B, paused=True)), {"a": "#0 new", "b": "nothing new: paused, so chosen last"}),
        (decided(Candidate(B, paused=True)), {"b": "#0 new; but: paused, nothing is written there"}),
        (decided(FREE, count=0), {"a": "nothing new: no instance is asked for"}),
        (
            decided(FREE, Candidate(B, gpus=2), count=2, capacity=FULL),
            {
                "a": "#0 new; but: no room for GPUs h100: 1 of 3 free, an instance takes 2",
                "b": "nothing new: no room for GPUs h100: 1 of 1 free, an instance takes 2",
            },
        ),
        (
            decided(FREE, count=2, pins=pins((0, "c")), hidden=frozenset({C}), waits_for=("clusters/c.yaml",)),
            {
                "a": "nothing new: waits for clusters/c.yaml",
                "c": "#0 live here; but: clusters/c.yaml cannot be used now",
            },
        ),
        (
            decided(FREE, Candidate(B, unfit=("x",)), workload=BASE, per_cluster=True, pins=pins((0, "b")), spec_id=""),
            {"a": "new", "b": "leaving; no: x"},
        ),
    ],
)
def test_one_line_for_each_cluster_with_all_reasons(decision, expected):
    assert words(decision) == expected


def test_titles():
    assert title(decided(FREE).ask) == "function/chat h100"
    assert title(decided(FREE, workload=BASE, spec_id="").ask) == "bundle/base"
    assert amount(decided(FREE, count=3, capacity=FULL)) == "1 of 3 instances"
    assert amount(decided(FREE)) == "1 of 1 instance"
    assert amount(decided(FREE, Candidate(B), count=2, per_cluster=True)) == "2 instances on 2 clusters"
    assert amount(decided(FREE, per_cluster=True)) == "on 1 cluster"


def test_what_is_simply_everywhere_is_not_worth_a_line():
    bundle = {"workload": BASE, "per_cluster": True, "spec_id": ""}
    assert not worth_telling(decided(FREE, Candidate(B), **bundle))
    assert worth_telling(decided(FREE, Candidate(B, unfit=("x",)), **bundle))
    assert worth_telling(decided(FREE, pins=pins((0, "a"), (1, "a")), **bundle))
    assert worth_telling(decided(FREE))


def test_json_has_every_cluster_that_is_asked_for():
    decision = decided(FREE, Candidate(B, unfit=("x", "y")), count=3, capacity=FULL, pins=pins((1, "a"), (7, "a")))
    (found,) = placement_json([decision], ["a", "b"])
    room = "no room for GPUs h100: 1 of 3 free, an instance takes 2"
    assert found == {
        "workload": "function/chat",
        "specification": "h100",
        "instances": 3,
        "perCluster": False,
        "waiting": 2,
        "waitsFor": [],
        "clusters": {
            "a": {"live": [1], "new": [], "leaving": [7], "fits": True, "reasons": [room]},
            "b": {"live": [], "new": [], "leaving": [], "fits": False, "reasons": ["x", "y"]},
        },
    }
    assert placement_json([decision], ["b"])[0]["clusters"].keys() == {"b"}
