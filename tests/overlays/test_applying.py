"""Patches over a base: the merged body, who set what, and what was overridden."""

import copy

from gitops.manifests.raw import RawDocument
from gitops.manifests.reading import read_documents
from gitops.model.findings import Origin
from gitops.overlays import codes
from gitops.overlays.applying import Merged, apply_patches
from gitops.overlays.overriding import ABSENT
from gitops.overlays.patches import MergePatchSource
from gitops.overlays.provenance import Provenance
from gitops.overlays.reporting import override_findings

BASE = """\
kind: NIMService
spec:
  image:
    tag: 1.20
    repository: r
  replicas: 1
  env:
  - name: A
    value: "1"
  - name: B
    value: "2"
  storage: small
  extra:
    one: 1
    two:
      deep: 2
"""


def document(text: str, file: str) -> RawDocument:
    (found,) = read_documents(text.encode(), file=file).documents
    return found


def source(text: str, file: str = "a.yaml") -> MergePatchSource:
    found = document(text, file)
    return MergePatchSource(found.body, Provenance.of_document(found))


def merged(*patches: MergePatchSource) -> Merged:
    base = document(BASE, "base.yaml")
    before = copy.deepcopy(base.body)
    result = apply_patches(base.body, Provenance.of_document(base), patches)
    assert base.body == before
    return result


def test_without_patches_the_provenance_is_the_same_object_and_the_body_a_copy():
    base = document(BASE, "base.yaml")
    provenance = Provenance.of_document(base)
    result = apply_patches(base.body, provenance, ())
    assert result.provenance is provenance
    assert result.body == base.body
    assert result.body is not base.body
    assert result.body["spec"]["env"] is not base.body["spec"]["env"]


def test_each_leaf_knows_who_set_it():
    result = merged(source("spec:\n  replicas: 3\n  image:\n    tag: '2'\n  new: {a: {b: 1}}\n"))
    origin = result.provenance.origin_of
    assert result.body["spec"]["replicas"] == 3
    assert origin(("spec", "replicas")) == Origin("a.yaml", 2)
    assert origin(("spec", "image", "tag")) == Origin("a.yaml", 4)
    assert origin(("spec", "image", "repository")) == Origin("base.yaml", 5)
    assert origin(("spec", "image")) == Origin("base.yaml", 3)
    assert origin(("spec", "new", "a", "b")) == Origin("a.yaml", 5)
    assert origin(("spec", "storage")) == Origin("base.yaml", 12)
    assert origin(("kind",)) == Origin("base.yaml", 1)


def test_a_value_on_the_line_of_the_base_parent_still_has_the_overlays_origin():
    base = document("spec: {replicas: 1, name: a}\n", "base.yaml")
    result = apply_patches(base.body, Provenance.of_document(base), [source("spec: {replicas: 2}\n")])
    assert result.provenance.origin_of(("spec", "replicas")) == Origin("a.yaml", 1)
    assert result.provenance.origin_of(("spec", "name")) == Origin("base.yaml", 1)


def test_the_authors_text_follows_the_value():
    assert merged(source("spec: {replicas: 2}\n")).provenance.text_of(("spec", "image", "tag")) == "1.20"
    assert merged(source("spec: {image: {tag: 3.10}}\n")).provenance.text_of(("spec", "image", "tag")) == "3.10"
    assert merged(source("spec: {image: {tag: '3'}}\n")).provenance.text_of(("spec", "image", "tag")) is None
    assert merged(source("spec: {image: null}\n")).provenance.text_of(("spec", "image", "tag")) is None


def test_p04_items_of_a_replaced_list_are_named():
    result = merged(source("spec:\n  env:\n  - {name: C, value: c}\n"))
    (override,) = result.overridden
    assert override.path == ("spec", "env")
    assert override.vanished == ("A", "B")
    assert (override.before_origin, override.after_origin) == (Origin("base.yaml", 7), Origin("a.yaml", 2))
    assert result.provenance.origin_of(("spec", "env", 0, "value")) == Origin("a.yaml", 3)
    (finding,) = override_findings(result.overridden)
    assert finding.code == codes.ITEMS_GONE
    assert finding.message == "the list spec.env is replaced and loses A, B (before: base.yaml:7)"


def test_p04_origins_of_replaced_list_items_do_not_survive():
    result = merged(source("spec:\n  env: [{name: C}, {name: D, value: x}]\n"))
    assert result.provenance.origin_of(("spec", "env", 1, "value")) == Origin("a.yaml", 2)


def test_a_removed_value_remembers_who_removed_it():
    result = merged(source("spec:\n  replicas: null\n  extra: null\n"))
    assert "replicas" not in result.body["spec"]
    replicas, extra = result.overridden
    assert replicas.removed
    assert replicas.after is ABSENT
    assert (extra.path, extra.before) == (("spec", "extra"), {"one": 1, "two": {"deep": 2}})
    assert result.provenance.origin_of(("spec", "replicas")) == Origin("a.yaml", 2)
    assert result.provenance.origin_of(("spec", "extra", "two", "deep")) == Origin("a.yaml", 3)


def test_removing_what_is_not_there_is_nothing():
    result = merged(source("spec: {absent: null}\n"))
    assert result.overridden == ()
    assert result.provenance.origin_of(("spec", "absent")) == Origin("base.yaml", 2)


def test_setting_the_same_value_overrides_nothing_but_moves_the_origin():
    result = merged(source("spec:\n  replicas: 1\n"))
    assert result.overridden == ()
    assert result.provenance.origin_of(("spec", "replicas")) == Origin("a.yaml", 2)


def test_p15_the_later_overlay_wins_and_the_override_is_shown():
    a, b = source("spec: {replicas: 2}\n", "a.yaml"), source("spec: {replicas: 3}\n", "b.yaml")
    result, reverse = merged(a, b), merged(b, a)
    assert (result.body["spec"]["replicas"], reverse.body["spec"]["replicas"]) == (3, 2)
    first, second = result.overridden
    assert (first.before, first.after, first.over_overlay) == (1, 2, False)
    assert (second.before, second.after, second.over_overlay) == (2, 3, True)
    assert (second.before_origin.file, second.after_origin.file) == ("a.yaml", "b.yaml")
    assert [f.code for f in override_findings(result.overridden)] == [codes.OVERLAY_OVER_OVERLAY]


def test_p16_a_change_of_type_is_flagged():
    result = merged(source("spec: {storage: {size: 10Gi, class: null}, replicas: '1', extra: 1}\n"))
    assert result.body["spec"]["storage"] == {"size": "10Gi"}
    assert [o.path[-1] for o in result.overridden if o.type_changed] == ["storage", "replicas", "extra"]
    assert {f.code for f in override_findings(result.overridden)} == {codes.TYPE_CHANGED}


def test_an_overlay_over_a_value_that_an_overlay_created():
    result = merged(source("spec: {new: {a: 1, b: 1}}\n", "a.yaml"), source("spec: {new: {a: 2}}\n", "b.yaml"))
    (override,) = result.overridden
    assert (override.path, override.over_overlay) == (("spec", "new", "a"), True)
    assert result.provenance.origin_of(("spec", "new", "a")) == Origin("b.yaml", 1)
    assert result.provenance.origin_of(("spec", "new", "b")) == Origin("a.yaml", 1)


def test_a_key_that_comes_back_does_not_remember_its_removal():
    """Where it has the line of its map, the removal is the only thing that is noted for it."""
    there, gone = source("spec: {new: {a: 1}}\n", "a.yaml"), source("spec: {new: {a: null}}\n", "b.yaml")
    assert merged(there, gone).provenance.origin_of(("spec", "new", "a")) == Origin("b.yaml", 1)
    result = merged(there, gone, there)
    assert result.body["spec"]["new"] == {"a": 1}
    assert result.provenance.origin_of(("spec", "new", "a")) == Origin("a.yaml", 1)


def test_an_inline_patch_has_the_lines_of_its_file():
    text = "kind: D\nspec:\n  patches:\n  - target: {}\n    patch:\n      spec:\n        replicas: 2\n"
    found = document(text, "deployment.yaml")
    path = ("spec", "patches", 0, "patch")
    patch = MergePatchSource(found.body["spec"]["patches"][0]["patch"], Provenance.of_document(found).at(path))
    result = merged(patch)
    assert result.provenance.origin_of(("spec", "replicas")) == Origin("deployment.yaml", 7)
    assert result.provenance.origin_of(("spec", "storage")) == Origin("base.yaml", 12)


def test_an_item_of_a_list_as_base():
    text = "kind: List\nitems:\n- kind: A\n  spec:\n    one: 1\n    two: 2\n"
    base = document(text, "list.yaml")
    result = apply_patches(base.body, Provenance.of_document(base), [source("spec: {one: 2}\n")])
    assert result.provenance.origin_of(("spec", "two")) == Origin("list.yaml", 6)
    assert result.provenance.origin_of(("spec", "one")) == Origin("a.yaml", 1)


def test_the_provenance_of_a_merge_is_small():
    result = merged(source("spec: {replicas: 2}\n"))
    assert len(result.provenance.blob) <= 6 * 16 + 1
