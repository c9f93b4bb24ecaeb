"""YAML as people really write it, after cases in public issue trackers: kubectl's value, or refused."""

import time

import pytest

from gitops.manifests import codes
from gitops.manifests.checking import check_object
from gitops.manifests.reading import ReadResult, read_documents


def read(text: str | bytes) -> ReadResult:
    return read_documents(text.encode() if isinstance(text, str) else text, file="app/a.yaml")


def body(text: str):
    result = read(text)
    assert result.complete, result.findings
    (document,) = result.documents
    return document.body


def refused(text: str | bytes) -> list[str]:
    """Codes of the errors; the document or the file must be lost."""
    result = read(text)
    assert not result.complete
    return [f.code for f in result.findings if f.severity == "error"]


def test_y01_boolean_words_are_booleans_as_kubectl_reads_them():
    env = body("env: [{name: COUNTRY, value: no}, {name: MODE, value: Off}, {name: AXIS, value: y}]")["env"]
    assert [e["value"] for e in env] == [False, False, True]
    assert all(type(e["value"]) is bool for e in env)


def test_y01_single_letters_are_warned_about():
    result = read("a: 1\naxis: y\nother: N\nyes: no\n".replace("yes: no\n", "word: yes\n"))
    assert [(f.code, f.origin.line) for f in result.findings] == [
        (codes.AMBIGUOUS_BOOLEAN, 2),
        (codes.AMBIGUOUS_BOOLEAN, 3),
    ]
    assert result.complete


def test_y01_the_authors_word_is_kept_for_messages():
    (document,) = read("flag: Off\nplain: true\n").documents
    assert document.lines.text_of(("flag",)) == "Off"
    assert document.lines.text_of(("plain",)) is None


@pytest.mark.parametrize("key", ["on", "true", "1", "1.0", "null", "~", "yes", "0644", "08", ".inf", "N"])
def test_y02_keys_that_are_not_text_are_refused_with_their_line(key):
    result = read(f"data:\n  fine: a\n  {key}: b\n")
    assert not result.complete
    assert [f.origin.line for f in result.findings] == [3]


def test_y02_every_colliding_key_is_named():
    result = read("data: {on: a, true: b, 1: c, 1.0: d, null: e, 2024-01-02: f}")
    assert [f.code for f in result.findings] == [codes.KEY_NOT_TEXT] * 5  # the date is text for kubectl


def test_y02_quoted_and_tagged_keys_are_text():
    assert body("{'on': 1, \"1\": 2, !!str true: 3}") == {"on": 1, "1": 2, "true": 3}


def test_y02_an_escaped_key_equal_to_a_plain_one_is_a_duplicate():
    assert refused('{a: 1, "\\x61": 2}') == [codes.DUPLICATE_KEY]


def test_y03_octal_modes():
    assert body("[0644, 0o644, 644]") == [420, 420, 644]
    assert body('["0644"]') == ["0644"]
    assert refused("mode: 08") == [codes.LEADING_ZERO]
    (document,) = read("mode: 0644").documents
    assert document.lines.text_of(("mode",)) == "0644"


@pytest.mark.parametrize("text", ["12:30", "22:22", "190:20:30", "09:30", "00:1a:2b:3c:4d:5e", "1:2:3.5"])
def test_y04_base_60_stays_text(text):
    assert body(f"v: {text}") == {"v": text}


@pytest.mark.parametrize("text", ["2030-01-02T03:04:05Z", "2030-01-02", "2001-12-14 21:59:43.10 -5"])
def test_y05_timestamps_stay_text(text):
    assert body(f"v: {text}") == {"v": text}


def test_y06_version_like_numbers_keep_the_authors_text():
    (document,) = read("a: 1.20\nb: 4651090\nc: 0123456\nd: 1234e567\n").documents
    assert document.body == {"a": 1.2, "b": 4651090, "c": 42798, "d": "1234e567"}
    texts = [document.lines.text_of((k,)) for k in "abcd"]
    assert texts == ["1.20", None, "0123456", None]  # where JSON prints the same, the value is the text


def test_y06_the_authors_text_is_known_where_aliases_and_merges_repeat_a_value():
    text = """\
base: &base {tag: 1.20, list: [0644, {on-off: Off}]}
tag: &tag 1.30
again: *base
merged: {<<: *base, x: 1}
first: {<<: [{inline: 0x10}, *base]}
copy: [*tag]
"""
    (document,) = read(text).documents
    words = {
        ("again", "tag"): "1.20",
        ("again", "list", 0): "0644",
        ("again", "list", 1, "on-off"): "Off",
        ("merged", "tag"): "1.20",
        ("merged", "list", 1, "on-off"): "Off",
        ("merged", "x"): None,
        ("first", "tag"): "1.20",
        ("first", "inline"): "0x10",
        ("copy", 0): "1.30",
    }
    assert {path: document.lines.text_of(path) for path in words} == words


def test_y07_int64_is_exact_and_more_is_refused():
    ids = [9123456789012345678, 21600000, -(2**63), 2**63 - 1]
    assert body(f"ids: {ids}") == {"ids": ids}
    for number in ("20000000000000000000", str(2**63), str(-(2**63) - 1), "0xffffffffffffffff", "1e19", "5" * 5000):
        result = read(f"spec:\n  id: {number}\n")
        assert [(f.code, f.origin.line, f.path) for f in result.findings] == [
            (codes.NUMBER_TOO_LARGE, 2, ("spec", "id"))
        ]


def test_y08_duplicate_keys_name_file_document_key_and_both_lines():
    text = "kind: A\n---\nspec:\n  containers:\n  - name: x\n    env: []\n    image: i\n    env: []\n---\nkind: B\n"
    result = read(text)
    (finding,) = result.findings
    assert str(finding.origin) == "app/a.yaml:8"
    assert finding.message == "document 2: the key `env` is written on line 6 and line 8"
    assert finding.path == ("spec", "containers", 0, "env")
    assert [d.body["kind"] for d in result.documents] == ["A", "B"]
    assert result.lost == (2,)
    assert result.readable
    assert not result.complete


def test_y08_all_errors_of_a_file_are_found_in_one_run():
    result = read("a: 1\na: 2\nb: !x 1\n---\nc: .nan\n---\nd: 1\n")
    assert [f.code for f in result.findings] == [codes.DUPLICATE_KEY, codes.TAG, codes.NOT_FINITE]
    assert [d.body for d in result.documents] == [{"d": 1}]


def test_y09_empty_documents_are_nothing_but_count():
    text = "# team file\n---\n---\nnull\n---\nkind: ConfigMap\n---\n"
    result = read(text)
    (document,) = result.documents
    assert (document.body, document.index, document.line) == ({"kind": "ConfigMap"}, 3, 6)
    assert result.findings == ()


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n", "---\n---\n", "\ufeff"])
def test_y09_files_without_content(text):
    result = read(text)
    assert result == ReadResult((), (), readable=True)


def test_y10_alias_to_an_earlier_document():
    result = read("a: &x {k: v}\n---\n\nb: *x\n")
    (finding,) = result.findings
    assert (finding.code, finding.origin.line) == (codes.UNKNOWN_ALIAS, 4)
    assert finding.message == "document 2: no anchor &x before the alias *x in this document"
    assert result.lost == (2,)


def test_y11_merge_keys_are_shallow_and_explicit_keys_win():
    text = "base: &base {image: a, args: [x], deep: {one: 1}}\nm: {<<: *base, image: b, deep: {two: 2}}\n"
    assert body(text)["m"] == {"image": "b", "args": ["x"], "deep": {"two": 2}}


def test_y11_of_several_maps_the_earlier_wins():
    text = "a: &a {x: 1}\nb: &b {x: 2, w: 2}\nm:\n  <<: [*a, *b]\n  z: 3\n"
    assert body(text)["m"] == {"x": 1, "w": 2, "z": 3}


def test_y11_a_merge_after_a_key_that_it_sets_is_refused_because_kubectl_lets_the_merge_win():
    text = "base: &base {image: a, args: [x]}\nm:\n  image: b\n  <<: *base\n"
    result = read(text)
    (finding,) = result.findings
    assert (finding.code, finding.origin.line) == (codes.MERGE_ORDER, 4)
    assert body(text.replace("image: b", "image: a"))["m"] == {"image": "a", "args": ["x"]}
    assert body(text.replace("image: b", "name: b"))["m"] == {"name": "b", "image": "a", "args": ["x"]}


def test_y11_two_merge_keys_are_a_duplicate():
    assert refused("a: &a {x: 1}\nm:\n  <<: *a\n  <<: *a\n") == [codes.DUPLICATE_KEY]


@pytest.mark.parametrize("value", ["1", "[1]", "text", "null", "[[]]", "*list", "[*list]", "*text"])
def test_y11_merge_of_something_else(value):
    assert refused(f"list: &list [{{a: 1}}]\ntext: &text b\nm: {{<<: {value}}}") == [codes.BAD_MERGE]


def test_y11_a_quoted_merge_sign_is_a_key():
    assert body('m: {"<<": 1}') == {"m": {"<<": 1}}


def test_y11_merge_inside_a_list_of_objects():
    text = "kind: List\nx: &x {image: a, args: [1]}\nitems:\n- kind: A\n  spec:\n    <<: *x\n    image: b\n- kind: B\n"
    result = read(text)
    assert [d.body for d in result.documents] == [
        {"kind": "A", "spec": {"image": "b", "args": [1]}},
        {"kind": "B"},
    ]


def bomb(levels: int, width: int) -> str:
    lines = ["l0: &l0 [x, x, x]"]
    lines += [f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * width)}]" for n in range(1, levels + 1)]
    return "\n".join(lines)


def test_y12_expansion_bomb_is_refused_fast():
    started = time.process_time()
    assert codes.TOO_MANY_NODES in refused(bomb(8, 9))
    assert codes.TOO_MANY_NODES in refused("a: &a " + "{x: " * 20 + "1" + "}" * 20 + "\n" + bomb(30, 9))
    assert time.process_time() - started < 5


def test_y12_normal_use_of_anchors_passes():
    text = "base: &b {cpu: 1, list: [1, 2]}\n" + "".join(f"k{n}: *b\n" for n in range(60))
    assert body(text)["k59"] == {"cpu": 1, "list": [1, 2]}


def test_y12_kubectls_share_of_aliases_is_the_limit():
    text = "base: &b [" + ", ".join(["x"] * 400) + "]\nmany: [" + ", ".join(["*b"] * 400) + "]\n"
    assert refused(text) == [codes.TOO_MANY_NODES]


def test_y12_aliases_share_no_structure():
    value = body("a: &a {l: [1]}\nb: *a\nc: {<<: *a}\n")
    value["a"]["l"].append(2)
    value["c"]["l"].append(3)
    assert value == {"a": {"l": [1, 2]}, "b": {"l": [1]}, "c": {"l": [1, 3]}}


def test_y12_the_share_of_aliases_counts_after_each_alias_as_for_kubectl():
    plain = "plain: [" + ", ".join(["x"] * 5_000) + "]\n"
    text = "base: &b [" + ", ".join(["x"] * 400) + "]\nmany: [" + ", ".join(["*b"] * 400) + "]\n"
    assert refused(text + plain * 10) == [codes.TOO_MANY_NODES]
    few = text.replace(", ".join(["*b"] * 400), ", ".join(["*b"] * 50))
    assert body(plain + few)["many"][49] == ["x"] * 400


def test_y12_long_texts_are_counted_as_often_as_aliases_repeat_them():
    assert refused("a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 50 + "]") == [codes.TOO_MANY_NODES]
    assert refused("a: &a {" + "x" * 1_000 + ": 1}\n" + "".join(f"b{n}: {{<<: *a}}\n" for n in range(5_000))) == [
        codes.TOO_MANY_NODES
    ]
    assert body("a: &a " + "x" * 100_000 + "\nb: [" + "*a, " * 40 + "]")["b"][39] == "x" * 100_000


def test_an_anchor_used_again_inside_its_own_value_keeps_the_inner_value():
    """The inner one begins later, so it is the one that later aliases mean: for kubectl, and in YAML's words too."""
    assert body("a: &x {b: &x 1}\nc: *x\n")["c"] == 1
    assert body("a: &x [&x {b: &x 2}, *x]\nc: *x\n") == {"a": [{"b": 2}, 2], "c": 2}


@pytest.mark.parametrize("text", ["spec: &s {child: *s}", "&r [*r]", "a: &x 1\nb: &x {c: *x}", "a: &a {<<: *a}"])
def test_y13_self_reference(text):
    assert codes.CYCLE in refused(text)


def test_y14_mark_at_the_start_is_ignored():
    result = read("\ufeffkind: A\n---\nkind: B\n")
    assert [(d.body["kind"], d.line) for d in result.documents] == [("A", 1), ("B", 3)]


def test_y14_mark_inside_the_file_is_refused():
    result = read("kind: A\n---\n\ufeffkind: B\n")
    (finding,) = result.findings
    assert (finding.code, finding.origin.line) == (codes.STRAY_MARK, 3)
    assert not result.readable
    assert result.documents == ()


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "latin-1"])
def test_y14_other_encodings_are_refused_by_name(encoding):
    assert refused("kind: ä\n".encode(encoding)) == [codes.NOT_UTF8]


def test_y15_crlf_equals_lf():
    text = "kind: A\ndata:\n  t: |\n    one\n    two\n  f: >-\n    a\n    b\n---\nkind: B\nx: 'a\n  b'\n"
    lf, crlf = read(text), read(text.replace("\n", "\r\n"))
    assert lf.complete
    assert lf == crlf  # values, lines and all


@pytest.mark.parametrize(("style", "value"), [("|", "x\n"), ("|+", "x\n"), (">", "x\n"), ("|-", "x"), ("'x", "x ")])
def test_a_last_line_without_a_line_feed_is_ended_as_by_kubectl(style, value):
    text = f"a: {style}\n  x" if style != "'x" else "a: 'x\n  '"
    assert body(text) == {"a": value}
    assert body(text + "\r\n") == {"a": value}


def test_y15_bare_carriage_return_is_refused():
    result = read("kind: A\rdata: x\r\n")
    assert [(f.code, f.origin.line) for f in result.findings] == [(codes.BARE_RETURN, 1)]


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        pytest.param("a:\n\tb: 1\n", 2, 1, id="indentation"),
        pytest.param("a: b\n\tc: d\n", 2, 1, id="continuation"),
        pytest.param("a:\n- \tx\n", 2, 3, id="after-dash"),
        pytest.param("a: |\n\tx\n", 2, 1, id="block-text"),
    ],
)
def test_y16_tab_is_named_with_line_and_column(text, line, column):
    result = read(text)
    (finding,) = result.findings
    assert (finding.code, finding.origin.line) == (codes.TAB, line)
    assert f"a tab character at column {column}" in finding.message


def test_y16_tabs_that_kubectl_accepts():
    assert body("a:\t1\nb: 2\t\nc: 'x'\t# comment\nd: [1,\t2]\n") == {"a": 1, "b": 2, "c": "x", "d": [1, 2]}


def test_y17_items_become_documents_with_their_own_lines():
    text = """\
apiVersion: v1
kind: List
items:
- kind: A
  spec:
    x: 1
- apiVersion: v1
  kind: List
  items:
  - kind: B
    spec:
      z: 0o17
- kind: List
  items:
"""
    a, b = read(text).documents
    assert (a.body, a.line, a.index) == ({"kind": "A", "spec": {"x": 1}}, 4, 1)
    assert (b.body, b.line) == ({"kind": "B", "spec": {"z": 15}}, 10)
    assert (a.lines.line_of(("spec", "x")), b.lines.line_of(("spec", "z"))) == (6, 12)
    assert b.lines.text_of(("spec", "z")) == "0o17"


def test_y17_a_list_equals_plain_documents():
    plain = "kind: A\nspec: {x: 1}\n---\nkind: B\n"
    wrapped = "kind: List\napiVersion: v1\nitems:\n- kind: A\n  spec: {x: 1}\n- kind: B\n"
    assert [d.body for d in read(plain).documents] == [d.body for d in read(wrapped).documents]


def test_y17_typed_lists_imply_the_kind_of_their_items():
    text = "apiVersion: v1\nkind: ConfigMapList\nitems:\n- metadata: {name: a}\n"
    assert body(text) == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}


def test_y17_a_kind_may_end_in_list_without_being_one():
    text = "apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: a}\nentries: [x, z]\n"
    assert body(text)["entries"] == ["x", "z"]


@pytest.mark.parametrize("items", ["[x, z]", "[{a: 1}]", "[]", "null", "{a: 1}"])
def test_y17_items_of_another_kind_are_refused_because_kubectl_applies_them_in_its_place(items):
    assert refused(f"apiVersion: example.com/v1\nkind: Playlist\nmetadata: {{name: a}}\nitems: {items}\n") == [
        codes.BAD_ITEMS
    ]
    assert refused(f"kind: List\nitems:\n- kind: Playlist\n  items: {items}\n") == [codes.BAD_ITEMS]


def test_y17_no_items_is_none():
    assert read("kind: List\nitems: null\n").documents == ()
    assert read("kind: List\nitems: []\n").complete


def test_y17_lists_that_are_refused():
    assert refused("apiVersion: v1\nitems:\n- kind: A\n") == [codes.LIST_WITHOUT_KIND]
    assert refused("kind: List\n") == [codes.BAD_ITEMS]
    assert refused("kind: List\nitems: {a: 1}\n") == [codes.BAD_ITEMS]
    result = read("kind: List\nitems:\n- kind: A\n- text\n- null\n")
    assert [f.path for f in result.findings] == [("items", 1), ("items", 2)]
    assert result.documents == ()


@pytest.mark.parametrize(
    "text",
    [
        "a: !Ref x",
        "b: !!binary aGk=",
        "c: !!set {x}",
        "d: !!python/object/apply:os.getcwd []",
        "e: !!int '1'",
        "f: ! 1",
        "!Ref g: 1",
        "!!omap [a: 1]",
        "%TAG ! tag:yaml.org,2002:\n---\na: !str 1",
        "%TAG !! tag:example.com,2000:\n---\na: 1",
    ],
)
def test_y18_tags_are_refused_by_name(text):
    result = read(text)
    assert codes.TAG in [f.code for f in result.findings]
    assert not result.complete


def test_y18_harmless_tags():
    assert body("a: !!str 1\nb: !!map {c: 1}\nd: !!seq [1]\n") == {"a": "1", "b": {"c": 1}, "d": [1]}


@pytest.mark.parametrize("text", [".nan", ".NaN", ".inf", "-.inf", "+.Inf"])
def test_y19_no_such_number_in_json(text):
    result = read(f"spec: {{ratio: {text}}}")
    assert [(f.code, f.path) for f in result.findings] == [(codes.NOT_FINITE, ("spec", "ratio"))]


def test_y19_equals_sign_is_text():
    assert body("op: =") == {"op": "="}


def test_y20_what_is_no_manifest_is_an_error_not_skipped():
    (values,) = read("replicas: 1\n").documents
    assert {f.code for f in check_object(values)} == {codes.NOT_AN_OBJECT}
    (service,) = read("apiVersion: v1\nKind: Service\nmetadata: {name: a}\n").documents
    (finding,) = check_object(service)
    assert (finding.origin.line, finding.path) == (2, ("Kind",))
    assert "`Kind`" in finding.message
    template = read("kind: A\nname: {{ .Values.a }}\n")
    assert not template.complete
    assert any("template" in f.message for f in template.findings)


def test_y21_labels_and_annotations_that_are_not_text():
    text = """\
apiVersion: v1
kind: ConfigMap
metadata:
  name: a
  labels: {ticket: 356136738, ok: "1"}
  annotations:
    on: 1
""".replace("    on: 1", "    rate: 1.20\n    flag: yes")
    (document,) = read(text).documents
    found = check_object(document)
    assert [(f.code, f.origin.line, f.path[-1]) for f in found] == [
        (codes.METADATA_NOT_TEXT, 5, "ticket"),
        (codes.METADATA_NOT_TEXT, 7, "rate"),
        (codes.METADATA_NOT_TEXT, 8, "flag"),
    ]
    assert "written `1.20`" in found[1].message


def test_y22_generate_name():
    (document,) = read("apiVersion: batch/v1\nkind: Job\nmetadata: {generateName: nightly-}\n").documents
    assert [f.code for f in check_object(document)] == [codes.GENERATE_NAME]


def test_y23_keys_with_comments_only_are_null():
    value = body("metadata: {name: a, annotations: }\nargs:\n# - one\n# - two\nspec:\n")
    assert value == {"metadata": {"name": "a", "annotations": None}, "args": None, "spec": None}


def test_y24_directive_changes_nothing_and_is_warned_about():
    result = read("%YAML 1.2\n---\na: no\n...\n---\nb: 1\n")
    assert [d.body for d in result.documents] == [{"a": False}, {"b": 1}]
    assert [(f.code, f.severity, f.origin.line) for f in result.findings] == [(codes.DIRECTIVE, "warning", 1)]
    assert result.complete


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [
        pytest.param("ä: é\nü: \x01\n", 2, 4, id="control-character"),
        pytest.param("ä: é\nü: [1, }\n", 2, 8, id="flow"),
        pytest.param("a: b: c\n", 1, 5, id="two-colons"),
        pytest.param("a: 'b\n\nc: d\n", 3, 5, id="open-quote"),
    ],
)
def test_syntax_errors_have_line_and_column(text, line, column):
    result = read(text)
    assert [(f.code, f.origin.line) for f in result.findings] == [(codes.SYNTAX, line)]
    assert result.findings[0].message.startswith(f"column {column}: ")
    assert not result.readable


def test_syntax_errors_never_quote_the_file():
    for text in ("password: 's3cret\n", "password: {s3cret\n", "s3cret: [\n", "a: *s3cret\n  b"):
        assert all("s3cret" not in f.message for f in read(text).findings if f.code == codes.SYNTAX)


def test_a_syntax_error_in_a_late_document_makes_the_whole_file_unreadable():
    result = read("kind: A\n---\nkind: B\n---\na: [\n")
    assert (result.readable, result.complete, result.documents) == (False, False, ())
