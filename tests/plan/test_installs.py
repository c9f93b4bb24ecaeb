"""OperatorInstalls: what is expected where, and which clusters satisfy operatorVersions because of it."""

from __future__ import annotations

import pytest

from gitops.model.trees import EntryKind

DEPLOYMENT = """\
apiVersion: gitops/v1alpha1
kind: FunctionDeployment
metadata:
  name: chat
spec:
  gpuSpecifications:
    - id: h100
      gpu: H100
      minInstances: 2
      operatorVersions: {dynamo: "WANTED"}
      manifestMergePatches: [overlays/h100.yaml]
"""


def install(name, version, *, operator="dynamo", clusters="[]"):
    return (
        f"apiVersion: gitops/v1alpha1\nkind: OperatorInstall\nmetadata:\n  name: {name}\n"
        f"spec:\n  operatorType: {operator}\n  version: '{version}'\n  clusters: {clusters}\n"
    )


def codes(result):
    return [(f.code, str(f.origin)) for f in result.findings]


@pytest.mark.parametrize(
    ("wanted", "clusters"),
    [(">=1.4", "ab"), (">=1.5", "b"), ("<1.5", "a"), ("==1.*", "ab")],
)
def test_only_clusters_with_a_version_in_range_are_chosen(compile_small, wanted, clusters):
    result = compile_small(
        {
            "functions/chat/deployment.yaml": DEPLOYMENT.replace("WANTED", wanted),
            "operators/old.yaml": install("old", "1.4.1", clusters="[a]"),
            "operators/new.yaml": install("new", "1.5.0", clusters="[b]"),
        }
    )
    assert result.findings == ()
    assert {u.cluster for u in result.units if u.name == "chat"} == set(clusters)
    assert not result.held


def test_an_unknown_version_satisfies_no_range(compile_small):
    (found,) = compile_small({"functions/chat/deployment.yaml": DEPLOYMENT.replace("WANTED", ">=0")}).findings
    assert (found.code, str(found.origin)) == ("GO4001", "functions/chat/deployment.yaml:7")
    assert "a: nothing says which version of dynamo it has" in found.message


def test_an_install_with_errors_says_nothing_and_who_needs_it_waits(compile_small):
    result = compile_small(
        {
            "functions/chat/deployment.yaml": DEPLOYMENT.replace("WANTED", ">=1"),
            "operators/dynamo.yaml": install("dynamo", "new"),
        }
    )
    assert codes(result) == [("GO4002", "functions/chat/deployment.yaml:7"), ("GO2004", "operators/dynamo.yaml:7")]
    assert result.findings[0].message == "2 of 2 instances of h100 wait for operators/dynamo.yaml"
    assert not [key for key in result.units if key.name == "chat"]


TWO_INSTALLS = {
    "functions/chat/deployment.yaml": DEPLOYMENT.replace("WANTED", ">=1"),
    "operators/x.yaml": install("x", "1.5.0", clusters="[a]"),
    "operators/v.yaml": install("v", "1.5.0", clusters="[b]"),
}


@pytest.mark.parametrize(
    "change",
    [
        {"operators/x.yaml": "a: [\n"},
        {"operators/x.yaml": install("x", "new", clusters="[a]")},
        {"operators/x.yaml": EntryKind.SYMLINK},
        {"operators/x.yaml": None, "operators/x.yml": install("x", "1.5.0", clusters="[a]")},
        {"operators/a.yaml": install("a", "0.9", clusters="[a]")},
    ],
    ids=["yaml", "version", "link", "ending", "two versions"],
)
def test_i01_an_install_that_cannot_be_used_prunes_and_moves_nothing(compile_small, change):
    """An instance whose cluster lost its version would be placed on the other one, and pruned where it lives."""
    live = ["function/chat/h100-0@a", "function/chat/h100-1@b"]
    files = {path: text for path, text in {**TWO_INSTALLS, **change}.items() if text is not None}
    assert compile_small(TWO_INSTALLS, live=live).complete
    result = compile_small(files, live=live)
    assert [str(key) for key in result.units if key.name == "chat"] == live
    assert not [key for key in compile_small(files).units if key.name == "chat"]


def test_a_cluster_whose_version_is_out_of_range_is_not_waited_for(compile_small):
    files = {
        **TWO_INSTALLS,
        "functions/chat/deployment.yaml": DEPLOYMENT.replace("WANTED", ">=1.5"),
        "operators/x.yaml": install("x", "1.4.1", clusters="[a]"),
        "operators/z.yaml": "a: [\n",
    }
    result = compile_small(files)
    assert [f.code for f in result.findings] == ["GO1005"]
    assert {key.cluster for key in result.units if key.name == "chat"} == {"b"}


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"operators/x.yaml": install("w", "1.3")}, [("GO2008", "operators/x.yaml:4")]),
        ({"operators/x.yaml": install("x", "1.3", operator="ray")}, [("GO2013", "operators/x.yaml:6")]),
        (
            {"operators/x.yaml": install("x", "1.3", clusters="[c]")},
            [("GO2014", "operators/x.yaml:8"), ("GO4001", "operators/x.yaml:5")],
        ),
        (
            {"operators/x.yaml": install("x", "1.3"), "operators/z.yaml": install("z", "1.4", clusters="[b]")},
            [("GO4007", "operators/z.yaml:7")],
        ),
        ({"operators/x.yaml": install("x", "1.3"), "operators/z.yaml": install("z", "1.3")}, []),
        ({"operators/x/y.yaml": install("x", "1.3")}, [("GO2108", "operators/x/y.yaml")]),
    ],
)
def test_documents(compile_small, files, expected):
    assert sorted(codes(compile_small(files))) == sorted(expected)


def test_a_change_of_a_version_moves_the_function(compile_small):
    change = {"functions/chat/deployment.yaml": DEPLOYMENT.replace("WANTED", ">=1.5")}
    places = []
    for version in ("1.4.0", "1.5.0"):
        files = {
            "operators/a.yaml": install("a", version, clusters="[a]"),
            "operators/b.yaml": install("b", "1.5.0", clusters="[b]"),
        }
        result = compile_small({**change, **files})
        places.append({u.cluster for u in result.units if u.name == "chat"})
    assert places == [{"b"}, {"a", "b"}]
