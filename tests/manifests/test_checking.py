"""What every manifest must be."""

import pytest

from gitops.manifests import codes
from gitops.manifests.checking import check_object
from gitops.manifests.reading import read_documents


def check(text: str) -> list[tuple[str, int]]:
    (document,) = read_documents(text.encode(), file="a.yaml").documents
    return [(f.code, f.origin.line) for f in check_object(document)]


def test_a_good_object():
    assert check("apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  labels: {a: b}\n  annotations:\n") == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("- a\n", 1),
        ("text\n", 1),
        ("apiVersion: v1\nmetadata: {name: a}\n", 1),
        ("apiVersion: v1\nkind: [a]\nmetadata: {name: a}\n", 2),
        ("apiVersion: 1\nkind: A\nmetadata: {name: a}\n", 1),
        ("apiVersion: v1\nkind: A\nmetadata: text\n", 3),
        ("apiVersion: v1\nkind: A\nmetadata:\n  labels: {}\n", 3),
        ("apiVersion: v1\nkind: A\nmetadata:\n  name: 12\n", 4),
        ("apiVersion: v1\nkind: A\nmetadata:\n  name: ''\n", 4),
        ("apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  namespace: 1\n", 5),
    ],
)
def test_no_identity(text, line):
    assert check(text) == [(codes.NOT_AN_OBJECT, line)]


def test_owner_references_of_another_cluster_would_delete_the_object():
    text = "apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  ownerReferences: [{uid: x}]\n"
    assert check(text) == [(codes.OWNER_REFERENCES, 5)]


def test_labels_that_are_no_map():
    text = "apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  labels: [a]\n"
    assert check(text) == [(codes.METADATA_NOT_TEXT, 5)]


def test_the_number_of_findings_and_the_length_of_keys_are_bounded():
    labels = "".join(f"    l{n}: {n}\n" for n in range(5_000))
    found = check(f"apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  labels:\n{labels}")
    assert [code for code, _ in found] == [codes.METADATA_NOT_TEXT] * 100 + [codes.TOO_MANY_FINDINGS]
    (document,) = read_documents(
        b"apiVersion: v1\nkind: A\nmetadata:\n  name: a\n  labels:\n    ? " + b"x" * 10_000 + b"\n    : 1\n", file="a"
    ).documents
    (finding,) = check_object(document)
    assert finding.path == ("metadata", "labels", "x" * 320)
    assert len(finding.message) < 1_000
