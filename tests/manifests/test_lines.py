"""Lines of values: exact for block style, the nearest ancestor otherwise."""

import json

from hypothesis import given
from hypothesis import strategies as st

from gitops.manifests.lines import hash_of, nearest, pack, unpack
from gitops.manifests.reading import read_documents

TEXT = """\
# comment
spec:
  containers:
  - name: a
    image: b
    args: [1,
      2]
  - name: c
  nested: {x: {z: 1}}
  text: |
    one
    two
last: 1
"""


def test_lines_of_a_block_document():
    (document,) = read_documents(TEXT.encode(), file="a.yaml").documents
    line = document.lines.line_of
    assert line(()) == 2
    assert line(("spec", "containers")) == 3
    assert line(("spec", "containers", 0)) == 4
    assert line(("spec", "containers", 0, "name")) == 4
    assert line(("spec", "containers", 0, "image")) == 5
    assert line(("spec", "containers", 0, "args", 1)) == 7
    assert line(("spec", "containers", 1, "name")) == 8
    assert line(("spec", "nested", "x", "z")) == 9
    assert line(("spec", "text")) == 10
    assert line(("last",)) == 13


def test_lines_are_those_of_an_editor_not_of_yaml():
    """NEL, LS and PS end a line for YAML 1.1; no editor, no Git and no forge numbers lines so."""
    text = "a: 'x\u2028\x85\u2029'  # c\x85\nb: |\n  x\x85  y\nc: 1\n---\nd: !x 1\n"
    result = read_documents(text.encode(), file="a.yaml")
    (document,) = result.documents
    assert [document.lines.line_of((key,)) for key in "abc"] == [1, 2, 4]
    assert [f.origin.line for f in result.findings] == [6]
    twice = read_documents("x: '\u2028'\nb: 1\nb: 2\n".encode(), file="a.yaml")
    assert twice.findings[0].message == "document 1: the key `b` is written on line 2 and line 3"
    assert twice.findings[0].origin.line == 3


def test_a_syntax_error_at_the_end_is_on_the_last_line():
    for text in ("a: 'b", "a: 'b\n", "a: [\nb", "a:\n  'b\n\n"):
        (found,) = read_documents(text.encode(), file="a.yaml").findings
        assert found.origin.line == len(text.splitlines())


def test_unknown_paths_have_the_line_of_their_nearest_ancestor():
    (document,) = read_documents(TEXT.encode(), file="a.yaml").documents
    assert document.lines.line_of(("spec", "containers", 1, "added", "deep")) == 8
    assert document.lines.line_of(("nowhere",)) == 2


def test_a_part_of_a_map_has_its_own_root():
    (document,) = read_documents(TEXT.encode(), file="a.yaml").documents
    part = document.lines.at(("spec", "containers", 0))
    assert (part.line_of(()), part.line_of(("image",))) == (4, 5)


def test_lines_beyond_16_bits():
    text = "a: 1\n" + "\n" * 70_000 + "b: 2\n"
    (document,) = read_documents(text.encode(), file="a.yaml").documents
    assert document.lines.line_of(("a",)) == 1
    assert document.lines.line_of(("b",)) == 70_002


def test_lines_are_kept_small():
    text = "".join(f"key-{n}:\n  name: x\n  value: {n}\n" for n in range(100))
    (document,) = read_documents(text.encode(), file="a.yaml").documents
    assert len(document.lines.blob) <= 6 * 300 + 1


@given(st.dictionaries(st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)))
def test_pack_is_reversible(entries):
    assert unpack(pack(entries)) == entries


_PATHS = st.lists(st.text(max_size=4) | st.integers(0, 50), max_size=4).map(tuple)


@given(st.dictionaries(_PATHS.filter(bool), st.integers(1, 99)), _PATHS)
def test_nearest_is_the_longest_known_prefix(known, path):
    blob = pack({hash_of(p): line for p, line in known.items()})
    prefixes = [path[:n] for n in range(len(path), 0, -1)]
    expected = next((known[p] for p in prefixes if p in known), 7)
    assert nearest(blob, path, root=0, default=7) == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(codec="ascii"), max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcdefgh", min_size=1, max_size=6), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(_JSON)
def test_json_is_yaml(value):
    result = read_documents(json.dumps(value).encode(), file="a.yaml")
    assert result.complete, result.findings
    if isinstance(value, dict) and "items" in value:
        return
    assert [d.body for d in result.documents] == ([] if value is None else [value])
