"""JSON patches (RFC 6902): read strictly, applied whole or not at all, with the origin of every value."""

from __future__ import annotations

import copy

import jsonpatch
import pytest

from gitops.manifests.raw import RawDocument
from gitops.manifests.reading import read_documents
from gitops.model.findings import Origin
from gitops.overlays import codes
from gitops.overlays.applying import MAX_REJECTED, Merged, apply_patches
from gitops.overlays.json_patches import MAX_OPERATIONS, JsonPatchSource, read_operations
from gitops.overlays.overriding import ABSENT
from gitops.overlays.patches import MergePatchSource, Target
from gitops.overlays.pointers import PointerError, parse, written
from gitops.overlays.provenance import Provenance
from gitops.overlays.reporting import override_findings

TARGET = Target("v1", "A", "a")

BASE = """\
apiVersion: v1
kind: A
metadata:
  name: a
  labels:
    app: x
spec:
  replicas: 2
  image: old
  args:
  - one
  - two
  - three
  env:
  - name: A
    value: 1.20
  - name: B
    value: "2"
"""


def document(text: str, file: str) -> RawDocument:
    (found,) = read_documents(text.encode(), file=file).documents
    return found


def read(text: str, file: str = "patch.yaml") -> tuple[JsonPatchSource, tuple]:
    found = document(text, file)
    return read_operations(found.body, Provenance.of_document(found), TARGET)


def source(text: str, file: str = "patch.yaml") -> JsonPatchSource:
    made, problems = read(text, file)
    assert problems == ()
    return made


def apply(*texts: str, base: str = BASE) -> Merged:
    start = document(base, "base.yaml")
    before = copy.deepcopy(start.body)
    sources = [source(text, f"{n}.yaml" if n else "patch.yaml") for n, text in enumerate(texts)]
    result = apply_patches(start.body, Provenance.of_document(start), sources)
    assert start.body == before
    return result


def said(result: Merged) -> list[tuple[str, int]]:
    return [(f.code, f.origin.line) for f in result.findings]


# -- reading ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pointer"),
    [
        ("", ()),
        ("/", ("",)),
        ("/metadata/annotations/example.com~1team", ("metadata", "annotations", "example.com/team")),
        ("/data/a~01b", ("data", "a~1b")),
        ("/data/a\\/b", ("data", "a\\", "b")),
        ("/~0~1", ("~/",)),
    ],
)
def test_p06_pointers(text, pointer):
    assert parse(text) == pointer
    assert written(pointer) == text


@pytest.mark.parametrize("text", ["/data/x~2", "/data/x~", "/~~0", "metadata/labels/a", "#/a", " /a"])
def test_p06_p07_malformed_pointers(text):
    with pytest.raises(PointerError):
        parse(text)


def test_p06_keys_with_slash_and_tilde():
    result = apply(
        "- {op: add, path: /metadata/annotations, value: {}}\n"
        "- {op: add, path: /metadata/annotations/example.com~1team, value: a}\n"
        "- {op: add, path: /spec/a~01b, value: 1}\n"
    )
    assert result.body["metadata"]["annotations"] == {"example.com/team": "a"}
    assert result.body["spec"]["a~1b"] == 1
    assert result.provenance.origin_of(("spec", "a~1b")) == Origin("patch.yaml", 3)


MALFORMED = [
    ("{op: replace, path: metadata/labels/a, value: x}", codes.BAD_POINTER, "does not begin with /"),
    ("{op: replace, path: /data/x~2, value: x}", codes.BAD_POINTER, "neither ~0 (for ~) nor ~1"),
    ("{op: move, from: a, path: /b}", codes.BAD_POINTER, "bad `from`: `a` does not begin with /"),
    ("{op: add, path: /spec/a, val: x}", codes.BAD_OPERATION, "unknown member `val`; did you mean value?"),
    ("{op: Add, path: /spec/a, value: x}", codes.BAD_OPERATION, "unknown op `Add`; did you mean add?"),
    ("{op: merge, path: /spec/a, value: x}", codes.BAD_OPERATION, "unknown op `merge`"),
    ("{op: [add], path: /spec/a, value: x}", codes.BAD_OPERATION, "no `op`"),
    ("{path: /spec/a, value: x}", codes.BAD_OPERATION, "no `op`"),
    ("{op: add, path: /spec/a}", codes.BAD_OPERATION, "no `value`, which add needs"),
    ("{op: test, path: /spec/a}", codes.BAD_OPERATION, "no `value`, which test needs"),
    ("{op: replace, value: 1}", codes.BAD_OPERATION, "no `path`, which replace needs"),
    ("{op: copy, path: /spec/a}", codes.BAD_OPERATION, "no `from`, which copy needs"),
    ("{op: remove, path: /spec/a, value: x}", codes.BAD_OPERATION, "unknown member `value`"),
    ("{op: add, path: /spec/a, from: /spec/b, value: x}", codes.BAD_OPERATION, "unknown member `from`"),
    ("{op: add, path: [spec], value: x}", codes.BAD_OPERATION, "`path` is not text"),
    ("{op: remove, path: null}", codes.BAD_OPERATION, "`path` is not text"),
    ("text", codes.BAD_OPERATION, "not a map"),
]


@pytest.mark.parametrize(("operation", "code", "words"), MALFORMED)
def test_p07_malformed_operations(operation, code, words):
    _, problems = read(f"- {{op: test, path: /spec/replicas, value: 2}}\n- {operation}\n")
    assert [(f.code, str(f.origin)) for f in problems] == [(code, "patch.yaml:2")]
    assert f"patch of v1 A a: operation 2: {words}" in problems[0].message or words in problems[0].message


def test_p07_every_bad_operation_is_told_once():
    text = "".join(f"- {operation}\n" for operation, _, _ in MALFORMED)
    made, problems = read(text)
    assert [f.origin.line for f in problems] == list(range(1, len(MALFORMED) + 1))
    assert made.operations == ()


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("apiVersion: v1\nkind: A\nmetadata: {name: a}\n", 1),
        ("[]\n", 1),
        ("text\n", 1),
        ("- {op: remove, path: /a}\n" * (MAX_OPERATIONS + 1), 1),
    ],
)
def test_a_file_of_something_else(text, line):
    made, problems = read(text)
    assert [(f.code, f.origin.line) for f in problems] == [(codes.NOT_OPERATIONS, line)]
    assert made.operations == ()


def test_as_many_operations_as_are_allowed():
    text = "- {op: test, path: /spec/replicas, value: 2}\n" * MAX_OPERATIONS
    assert apply(text).findings == ()


# -- out of reach ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("{op: replace, path: /metadata/name, value: b}", codes.IDENTITY),
        ("{op: replace, path: /metadata/name, value: a}", codes.IDENTITY),
        ("{op: replace, path: /metadata/namespace, value: b}", codes.IDENTITY),
        ("{op: add, path: /metadata/generateName, value: b}", codes.IDENTITY),
        ("{op: replace, path: /apiVersion, value: v2}", codes.IDENTITY),
        ("{op: remove, path: /kind}", codes.IDENTITY),
        ("{op: copy, from: /spec/image, path: /metadata/name}", codes.IDENTITY),
        ("{op: move, from: /metadata/name, path: /spec/name}", codes.IDENTITY),
        ("{op: move, from: /metadata, path: /spec/metadata}", codes.IDENTITY),
        ("{op: replace, path: /metadata, value: {name: a}}", codes.IDENTITY),
        ("{op: remove, path: /metadata}", codes.IDENTITY),
        ("{op: copy, from: /spec, path: /metadata}", codes.IDENTITY),
        ("{op: replace, path: '', value: {}}", codes.IDENTITY),
        ("{op: remove, path: ''}", codes.IDENTITY),
        ("{op: test, path: '', value: {}}", codes.IDENTITY),
        ("{op: copy, from: '', path: /spec/all}", codes.IDENTITY),
        ("{op: move, from: '', path: /spec/all}", codes.IDENTITY),
        ("{op: add, path: /metadata/finalizers, value: [x]}", codes.OWNERSHIP),
        ("{op: add, path: /metadata/finalizers/-, value: x}", codes.OWNERSHIP),
        ("{op: remove, path: /metadata/ownerReferences/0}", codes.OWNERSHIP),
        ("{op: replace, path: /metadata/ownerReferences/0/uid, value: x}", codes.OWNERSHIP),
        ("{op: copy, from: /spec/args, path: /metadata/finalizers}", codes.OWNERSHIP),
        ("{op: move, from: /metadata/finalizers, path: /spec/x}", codes.OWNERSHIP),
        ("{op: add, path: /metadata/resourceVersion, value: x}", codes.OWNERSHIP),
        ("{op: add, path: /metadata/labels/gitops~1reconciler, value: x}", codes.RESERVED),
        ("{op: remove, path: /metadata/annotations/gitops~1depends-on}", codes.RESERVED),
        ("{op: move, from: /metadata/annotations/gitops~1depends-on, path: /spec/x}", codes.RESERVED),
        ("{op: add, path: /metadata/labels, value: {applyset.kubernetes.io/part-of: x}}", codes.RESERVED),
        ("{op: add, path: /metadata/labels/gitops~1reconciler/below, value: x}", codes.RESERVED),
        ("{op: add, path: /spec/template, value: {metadata: {labels: {gitops/reconciler: x}}}}", codes.RESERVED),
        ("{op: add, path: /spec/template/metadata/labels/gitops~1reconciler, value: x}", codes.RESERVED),
        ("{op: add, path: /spec/env/-, value: {$patch: delete, name: A}}", codes.DIRECTIVE),
        ("{op: add, path: /spec/$setElementOrder~1env, value: []}", codes.DIRECTIVE),
        ("{op: replace, path: /spec, value: {a: [{b: {$retainKeys: [x]}}]}}", codes.DIRECTIVE),
    ],
)
def test_p10_p12_out_of_reach(operation, code):
    _, problems = read(f"- {operation}\n")
    assert [(f.code, f.origin.line) for f in problems] == [(code, 1)]


MARKED = BASE.replace(
    "    app: x\n", "    app: x\n    gitops/team: mine\n  annotations:\n    gitops/depends-on: A/b\n"
) + (
    "  labels: {gitops/team: other}\n  empty: {}\n  template: {metadata: {labels: {a: b}}}\n  mark: {$patch: delete}\n"
)


@pytest.mark.parametrize(
    "operation",
    [
        "{op: add, path: /metadata/labels, value: {app: y}}",
        "{op: replace, path: /metadata/annotations, value: {}}",
        "{op: remove, path: /metadata/annotations}",
        "{op: move, from: /metadata/annotations, path: /spec/x}",
        "{op: copy, from: /spec/empty, path: /metadata/labels}",
        "{op: move, from: /spec/empty, path: /metadata/annotations}",
        "{op: copy, from: /spec/labels, path: /metadata/labels}",
        "{op: copy, from: /spec/labels, path: /spec/template/metadata/labels}",
        "{op: add, path: /metadata/labels, value: text}",
        "{op: add, path: /metadata/labels, value: null}",
        "{op: copy, from: /spec/args, path: /metadata/annotations}",
    ],
)
def test_p10_reserved_keys_are_out_of_reach_of_copies_and_of_parents(operation):
    result = apply(f"- {operation}\n", base=MARKED)
    assert said(result) == [(codes.RESERVED, 1)]
    assert result.body == document(MARKED, "base.yaml").body


def test_p12_a_directive_is_not_copied_either():
    assert said(apply("- {op: copy, from: /spec/mark, path: /spec/x}\n", base=MARKED)) == [(codes.DIRECTIVE, 1)]


def test_reserved_keys_may_be_repeated_by_who_replaces_a_map():
    text = "- {op: add, path: /metadata/labels, value: {}}\n"
    assert apply(text).body["metadata"]["labels"] == {}
    copied = "- {op: copy, from: /metadata/labels, path: /metadata/labels}\n"
    assert said(apply(copied, base=MARKED)) == [(codes.RESERVED, 1)]


def test_identity_may_be_read():
    result = apply(
        "- {op: test, path: /metadata/name, value: a}\n- {op: copy, from: /metadata/name, path: /spec/name}\n"
    )
    assert result.findings == ()
    assert result.body["spec"]["name"] == "a"


# -- applying --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (
            "/metadata/annotations/team",
            "no /metadata/annotations; add it first: {op: add, path: /metadata/annotations, ",
        ),
        ("/spec/a~1b/c/d", "there is no /spec/a~1b; add it first: {op: add, path: /spec/a~1b, value: {}}"),
        ("/spec/list/-", "add it first: {op: add, path: /spec/list, value: []}"),
        ("/spec/list/0", "add it first: {op: add, path: /spec/list, value: []}"),
    ],
)
def test_p05_parents_are_not_created(path, words):
    result = apply(f"- {{op: add, path: {path}, value: a}}\n")
    assert said(result) == [(codes.PARENT_MISSING, 1)]
    assert words in result.findings[0].message
    assert result.findings[0].message.startswith(f"operation 1 (add {path}): there is no /")


def test_p05_in_two_steps():
    result = apply(
        "- {op: add, path: /metadata/annotations, value: {}}\n- {op: add, path: /metadata/annotations/team, value: a}\n"
    )
    assert result.body["metadata"]["annotations"] == {"team": "a"}
    assert result.overridden == ()


@pytest.mark.parametrize(
    ("operation", "code", "words"),
    [
        ("{op: replace, path: /spec/args/-, value: x}", codes.BAD_POINTER, "`-` is the end of the list /spec/args"),
        ("{op: remove, path: /spec/args/-}", codes.BAD_POINTER, "`-` is the end"),
        ("{op: add, path: /spec/args/-/x, value: x}", codes.BAD_POINTER, "`-` is the end"),
        ("{op: replace, path: /spec/args/01, value: x}", codes.BAD_POINTER, "`01` is no position"),
        ("{op: replace, path: /spec/args/-1, value: x}", codes.BAD_POINTER, "`-1` is no position"),
        ("{op: replace, path: /spec/args/1e0, value: x}", codes.BAD_POINTER, "`1e0` is no position"),
        ("{op: replace, path: '/spec/args/٣', value: x}", codes.BAD_POINTER, "is no position"),
        ("{op: replace, path: /spec/args/9, value: x}", codes.BAD_POINTER, "has 3 items and no position 9"),
        ("{op: replace, path: /spec/args/3, value: x}", codes.BAD_POINTER, "has 3 items and no position 3"),
        ("{op: add, path: /spec/args/4, value: x}", codes.BAD_POINTER, "has 3 items and no position 4"),
        (f"{{op: add, path: /spec/args/{'9' * 5000}, value: x}}", codes.BAD_POINTER, "is no position"),
        ("{op: replace, path: /spec/image/x, value: x}", codes.BAD_POINTER, "/spec/image is neither a map nor a list"),
        ("{op: replace, path: /spec/nothing, value: x}", codes.NOTHING_THERE, "there is no /spec/nothing"),
        ("{op: remove, path: /spec/nothing}", codes.NOTHING_THERE, "there is no /spec/nothing"),
        ("{op: remove, path: /spec/nothing/below}", codes.NOTHING_THERE, "there is no /spec/nothing"),
        ("{op: copy, from: /spec/nothing, path: /spec/x}", codes.NOTHING_THERE, "there is no /spec/nothing"),
        ("{op: move, from: /spec/nothing, path: /spec/x}", codes.NOTHING_THERE, "there is no /spec/nothing"),
        ("{op: move, from: /spec/nothing, path: /spec/nothing}", codes.NOTHING_THERE, "there is no /spec/nothing"),
        ("{op: move, from: /spec, path: /spec/args/0}", codes.BAD_POINTER, "cannot be moved into itself"),
        ("{op: copy, from: /spec/args, path: /spec/x/y}", codes.PARENT_MISSING, "there is no /spec/x"),
        ("{op: move, from: /spec/args/0, path: /spec/args/3}", codes.BAD_POINTER, "has 2 items and no position 3"),
    ],
)
def test_p07_what_does_not_fit(operation, code, words):
    result = apply(f"- {operation}\n")
    assert said(result) == [(code, 1)]
    assert words in result.findings[0].message
    assert result.body == document(BASE, "base.yaml").body


def test_p07_add_at_the_end_appends_and_nothing_is_padded():
    result = apply("- {op: add, path: /spec/args/-, value: four}\n- {op: add, path: /spec/args/4, value: five}\n")
    assert result.body["spec"]["args"] == ["one", "two", "three", "four", "five"]


def test_p07_all_operations_that_do_not_fit_are_told():
    result = apply(
        "- {op: replace, path: /spec/args/01, value: x}\n"
        "- {op: replace, path: /spec/image, value: new}\n"
        "- {op: remove, path: /spec/nothing}\n"
        "- {op: add, path: /metadata/annotations/a, value: b}\n"
    )
    assert said(result) == [(codes.BAD_POINTER, 1), (codes.NOTHING_THERE, 3), (codes.PARENT_MISSING, 4)]
    assert result.body["spec"]["image"] == "old"


def test_p13_add_over_a_map_replaces_it_and_the_report_says_what_is_gone():
    base = BASE.replace("  labels:", "  annotations: {keep: yes-please}\n  labels:")
    result = apply('- {op: add, path: /metadata/annotations, value: {new: "1"}}\n', base=base)
    assert result.body["metadata"]["annotations"] == {"new": "1"}
    (override,) = result.overridden
    assert (override.path, override.vanished) == (("metadata", "annotations"), ("keep",))
    (finding,) = override_findings(result.overridden)
    assert (finding.code, str(finding.origin)) == (codes.KEYS_GONE, "patch.yaml:1")
    assert finding.message == "the map metadata.annotations is replaced and loses keep (before: base.yaml:5)"


def test_p04_p13_a_list_that_is_replaced_tells_which_items_are_gone():
    result = apply("- {op: replace, path: /spec/env, value: [{name: B}]}\n")
    (finding,) = override_findings(result.overridden)
    assert finding.code == codes.ITEMS_GONE
    assert finding.message == "the list spec.env is replaced and loses A (before: base.yaml:14)"


TESTED = """\
- {op: replace, path: /spec/image, value: new}
- {op: test, path: /spec/replicas, value: 3}
- {op: replace, path: /spec/replicas, value: 5}
"""


def test_p14_a_failing_test_rejects_the_patch_whole():
    result = apply(TESTED)
    assert said(result) == [(codes.TEST_FAILED, 2)]
    assert result.findings[0].message.startswith("operation 2 (test /spec/replicas): the test fails")
    assert result.body == document(BASE, "base.yaml").body
    assert result.overridden == ()
    assert result.provenance.origin_of(("spec", "image")) == Origin("base.yaml", 9)


def test_p14_other_patches_are_applied_all_the_same():
    result = apply("- {op: add, path: /spec/a, value: 1}\n", TESTED, "- {op: add, path: /spec/b, value: 2}\n")
    assert [str(f.origin) for f in result.findings] == ["1.yaml:2"]
    assert (result.body["spec"]["a"], result.body["spec"]["b"], result.body["spec"]["image"]) == (1, 2, "old")
    assert result.provenance.origin_of(("spec", "b")) == Origin("2.yaml", 1)


@pytest.mark.parametrize(
    ("value", "holds"),
    [("2", True), ("2.0", True), ("'2'", False), ("true", False), ("[2]", False), ("null", False)],
)
def test_p14_a_test_compares_as_json(value, holds):
    result = apply(f"- {{op: test, path: /spec/replicas, value: {value}}}\n")
    assert said(result) == ([] if holds else [(codes.TEST_FAILED, 1)])


def test_p14_a_test_of_something_that_is_not_there_fails_and_ends_the_patch():
    result = apply("- {op: test, path: /spec/nothing, value: 1}\n- {op: remove, path: /spec/nothing}\n")
    assert said(result) == [(codes.TEST_FAILED, 1)]


def test_findings_hold_no_values():
    secret = "s3cr3t-value"
    base = BASE + f"  password: {secret}\n"
    result = apply(
        "- {op: add, path: /spec/password/x, value: 1}\n"
        "- {op: add, path: /spec/none/x, value: s3cr3t-value}\n"
        "- {op: remove, path: /spec/none}\n"
        "- {op: test, path: /spec/password, value: s3cr3t-value-2}\n",
        base=base,
    )
    assert len(result.findings) == 4
    assert all(secret not in f.message for f in result.findings)


def test_an_error_of_the_library_is_a_finding_without_its_words(monkeypatch):
    def fail(*_args: object, **_options: object) -> None:
        raise jsonpatch.JsonPatchConflict("s3cr3t")

    monkeypatch.setattr(jsonpatch, "apply_patch", fail)
    result = apply("- {op: remove, path: /spec/image}\n")
    assert said(result) == [(codes.NOTHING_THERE, 1)]
    assert "s3cr3t" not in result.findings[0].message


def test_only_so_many_rejected_patches_are_told():
    result = apply(*["- {op: remove, path: /spec/nothing}\n"] * (MAX_REJECTED + 5))
    assert len(result.findings) == MAX_REJECTED


# -- who set what ----------------------------------------------------------------------------------------------------


def test_p15_origins_move_with_the_items_of_a_list():
    result = apply("- {op: add, path: /spec/args/1, value: new}\n- {op: remove, path: /spec/env/0}\n")
    origin = result.provenance.origin_of
    assert result.body["spec"]["args"] == ["one", "new", "two", "three"]
    lines = [origin(("spec", "args", n)) for n in range(4)]
    assert [str(o) for o in lines] == ["base.yaml:11", "patch.yaml:1", "base.yaml:12", "base.yaml:13"]
    assert result.body["spec"]["env"] == [{"name": "B", "value": "2"}]
    assert origin(("spec", "env", 0, "value")) == Origin("base.yaml", 18)
    assert result.provenance.text_of(("spec", "env", 0, "value")) is None


def test_the_parts_of_a_value_have_their_own_lines():
    result = apply("- op: add\n  path: /spec/x\n  value:\n    one: 1\n    two:\n    - a\n    - b\n")
    origin = result.provenance.origin_of
    assert origin(("spec", "x")) == Origin("patch.yaml", 3)
    assert origin(("spec", "x", "one")) == Origin("patch.yaml", 4)
    assert origin(("spec", "x", "two", 1)) == Origin("patch.yaml", 7)


def test_what_is_copied_or_moved_comes_from_the_operation():
    result = apply(
        "- op: copy\n  from: /spec/env/0\n  path: /spec/first\n- {op: move, from: /spec/args, path: /spec/a}\n"
    )
    origin = result.provenance.origin_of
    assert origin(("spec", "first", "value")) == Origin("patch.yaml", 1)
    assert result.provenance.text_of(("spec", "first", "value")) == "1.20"
    assert origin(("spec", "env", 0, "value")) == Origin("base.yaml", 16)
    assert origin(("spec", "a", 2)) == Origin("patch.yaml", 4)
    assert origin(("spec", "args")) == Origin("patch.yaml", 4)
    assert "args" not in result.body["spec"]


def test_a_move_inside_a_list_counts_without_the_item():
    result = apply("- {op: move, from: /spec/args/0, path: /spec/args/2}\n")
    assert result.body["spec"]["args"] == ["two", "three", "one"]
    origin = result.provenance.origin_of
    assert [origin(("spec", "args", n)).line for n in range(3)] == [12, 13, 1]


def test_the_text_of_a_replaced_value_is_forgotten():
    result = apply("- {op: replace, path: /spec/env/0/value, value: 3.10}\n")
    assert result.provenance.text_of(("spec", "env", 0, "value")) == "3.10"
    result = apply("- {op: replace, path: /spec/env/0/value, value: x}\n")
    assert result.provenance.text_of(("spec", "env", 0, "value")) is None


def test_p15_overrides_of_operations():
    result = apply(
        "- {op: replace, path: /spec/replicas, value: 3}\n"
        "- {op: remove, path: /spec/args/0}\n"
        "- {op: add, path: /spec/args/0, value: x}\n"
        "- {op: replace, path: /spec/image, value: old}\n"
    )
    assert [(o.path, o.before, o.after, o.over_overlay) for o in result.overridden] == [
        (("spec", "replicas"), 2, 3, False),
        (("spec", "args", 0), "one", ABSENT, False),
    ]
    assert [o.after_origin.line for o in result.overridden] == [1, 2]


def test_p15_the_later_of_two_forms_wins_and_both_are_told():
    start = document(BASE, "base.yaml")
    merge = document("spec: {replicas: 3, args: [x], new: {a: 1}}\n", "merge.yaml")
    patches = [
        MergePatchSource(merge.body, Provenance.of_document(merge)),
        source(
            "- {op: replace, path: /spec/replicas, value: 4}\n- {op: add, path: /spec/args/-, value: y}\n", "json.yaml"
        ),
        source("- {op: replace, path: /spec/args, value: [z]}\n- {op: remove, path: /spec/new}\n", "last.yaml"),
    ]
    result = apply_patches(start.body, Provenance.of_document(start), patches)
    assert (result.body["spec"]["replicas"], result.body["spec"]["args"]) == (4, ["z"])
    twice = [(o.path, str(o.before_origin), str(o.after_origin)) for o in result.overridden if o.over_overlay]
    assert twice == [
        (("spec", "replicas"), "merge.yaml:1", "json.yaml:1"),
        (("spec", "args"), "merge.yaml:1", "last.yaml:1"),
        (("spec", "new"), "merge.yaml:1", "last.yaml:2"),
    ]
    reverse = apply_patches(start.body, Provenance.of_document(start), [patches[1], patches[0]])
    assert (reverse.body["spec"]["replicas"], reverse.body["spec"]["args"]) == (3, ["x"])


def test_p15_a_change_inside_a_list_of_the_base_counts_when_the_list_is_replaced():
    result = apply("- {op: add, path: /spec/args/-, value: y}\n", "- {op: replace, path: /spec/args, value: []}\n")
    assert [(o.path, o.over_overlay) for o in result.overridden] == [(("spec", "args"), True)]


def test_an_override_shows_what_was_put_there_then():
    result = apply("- {op: replace, path: /spec/args, value: [a]}\n- {op: add, path: /spec/args/-, value: b}\n")
    assert [o.after for o in result.overridden] == [["a"]]
    assert result.body["spec"]["args"] == ["a", "b"]
    start, merge = document(BASE, "base.yaml"), document("spec: {args: [a]}\n", "merge.yaml")
    patches = [
        MergePatchSource(merge.body, Provenance.of_document(merge)),
        source("- {op: add, path: /spec/args/-, value: b}\n"),
    ]
    result = apply_patches(start.body, Provenance.of_document(start), patches)
    assert [o.after for o in result.overridden] == [["a"]]


# -- bounds ----------------------------------------------------------------------------------------------------------


def test_copies_of_copies_are_bounded():
    double = "- {op: copy, from: /spec/all, path: /spec/all/-}\n"
    text = f"- {{op: add, path: /spec/all, value: [{'x' * 100}]}}\n" + double * 40
    assert said(apply(text)) == [(codes.TOO_LARGE, 15)]


def test_copies_of_one_large_value_are_bounded():
    base = BASE + f"  large: {'x' * 100_000}\n"
    copies = "".join(f"- {{op: copy, from: /spec/large, path: /spec/large{n}}}\n" for n in range(20))
    result = apply(copies, base=base)
    assert said(result) == [(codes.TOO_LARGE, 11)]
    assert "large0" not in result.body["spec"]


def test_copies_and_moves_of_all_patches_of_an_object_count_together():
    base = BASE + f"  large: {'x' * 100_000}\n"
    there, back = "{op: move, from: /spec/large, path: /spec/x}", "{op: move, from: /spec/x, path: /spec/large}"
    result = apply(*[f"- {there}\n- {back}\n"] * 10, base=base)
    assert [str(f.origin) for f in result.findings][:1] == ["5.yaml:1"]
    assert {f.code for f in result.findings} == {codes.TOO_LARGE}


def test_depth_is_bounded():
    nest = "- {op: copy, from: /spec/deep, path: /spec/deep/x}\n"
    result = apply("- {op: add, path: /spec/deep, value: {}}\n" + nest * 300)
    assert said(result) == [(codes.TOO_LARGE, 199)]
    deep = "[" * 150 + "]" * 150
    result = apply(
        f"- {{op: add, path: /spec/deep, value: {deep}}}\n- {{op: add, path: /spec/deep{'/0' * 100}, value: {deep}}}\n"
    )
    assert said(result) == [(codes.TOO_LARGE, 2)]
