"""Which file and line set a value."""

from gitops.manifests.reading import read_documents
from gitops.model.findings import Origin
from gitops.overlays.provenance import Provenance


def provenance(text: str, file: str = "base.yaml") -> Provenance:
    (document,) = read_documents(text.encode(), file=file).documents
    return Provenance.of_document(document)


def test_of_a_document():
    found = provenance("kind: A\nspec:\n  replicas: 1\n  mode: 0644\n")
    assert found.origin_of(("spec", "replicas")) == Origin("base.yaml", 3)
    assert found.origin_of(("spec", "other")) == Origin("base.yaml", 2)
    assert found.origin_of(()) == Origin("base.yaml", 1)
    assert found.text_of(("spec", "mode")) == "0644"


def test_of_an_item_of_a_list():
    text = "kind: List\nitems:\n- kind: A\n  spec:\n    x: 1\n- kind: B\n  spec:\n    x: 1\n"
    first, second = read_documents(text.encode(), file="l.yaml").documents
    assert Provenance.of_document(first).origin_of(("spec", "x")) == Origin("l.yaml", 5)
    assert Provenance.of_document(second).origin_of(("spec", "x")) == Origin("l.yaml", 8)


def test_of_an_inline_patch():
    text = "kind: D\nspec:\n  patches:\n  - target: {}\n    patch:\n      spec:\n        replicas: 2\n"
    patch = provenance(text, "deployment.yaml").at(("spec", "patches", 0, "patch"))
    assert patch.origin_of(()) == Origin("deployment.yaml", 5)
    assert patch.origin_of(("spec", "replicas")) == Origin("deployment.yaml", 7)


def test_of_one_origin():
    found = Provenance.of_origin(Origin("clusters/a.yaml", 12))
    assert found.origin_of(("metadata", "labels", "x")) == Origin("clusters/a.yaml", 12)


def test_build_with_several_files_and_long_ones():
    entries = {1: Origin("b", 3), 2: Origin("c", 70_000), 3: Origin("a", 0)}
    found = Provenance.build(entries, Origin("a", 1))
    find = found.finder()
    assert {at: Origin(*find(at)) for at in entries} == entries
    assert find(4) is None
    assert found.files == ("a", "b", "c")


def test_it_is_small():
    text = "".join(f"key-{n}:\n  name: x\n  value: {n}\n" for n in range(20))
    assert len(provenance(text).blob) <= 6 * 60 + 1


def test_equal_inputs_give_equal_provenance():
    text = "kind: A\nspec:\n  replicas: 1\n"
    assert provenance(text) == provenance(text)
