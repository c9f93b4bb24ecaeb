"""Lines of values: exact for block style, the nearest ancestor otherwise."""

import json
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from yaml_kit.generating import Author

from gitops.manifests.lines import Path, hash_of, nearest, pack, unpack
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


# -- every path against PyYAML's own marks ---------------------------------------------------------------------------


class Oracle:
    """The line of every path of a document by yaml.compose: a key's line, an item's line, and for what an alias or a
    merge repeats, the line of the alias or the merge key."""

    def __init__(self, text: str) -> None:
        self.rows = text.split("\n")
        self.composed: set[int] = set()

    def lines(self, node: yaml.Node, value, path: Path, line: int) -> Iterator[tuple[Path, int]]:
        yield path, line
        if id(node) in self.composed:
            yield from self.repeated(value, path, line)
            return
        self.composed.add(id(node))
        if isinstance(node, yaml.MappingNode):
            written = {key.value: (key, child) for key, child in node.value if key.tag != MERGE}
            merge = next((key.start_mark.line + 1 for key, _ in node.value if key.tag == MERGE), 0)
            for key, child in value.items():
                if key in written:
                    at = written[key][0].start_mark.line + 1
                    yield from self.lines(written[key][1], child, (*path, key), at)
                else:
                    yield (*path, key), merge
                    yield from self.repeated(child, (*path, key), merge)
        elif isinstance(node, yaml.SequenceNode):
            for position, (item, child) in enumerate(zip(node.value, value, strict=True)):
                here = (*path, position)
                if id(item) in self.composed:  # an alias, of which yaml.compose does not tell where it stands
                    yield from self.repeated(child, here, ALIAS)
                else:
                    yield from self.lines(item, child, here, item.start_mark.line + 1)

    def repeated(self, value, path: Path, line: int) -> Iterator[tuple[Path, int]]:
        if line == ALIAS:
            yield path, ALIAS
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for segment, child in children:
            if line != ALIAS:
                yield (*path, segment), line
            yield from self.repeated(child, (*path, segment), line)


MERGE = "tag:yaml.org,2002:merge"
ALIAS = -1


def check_lines(text: str) -> Counter[str]:
    """Compare all lines of a text's documents; how many paths of each sort there were."""
    seen: Counter[str] = Counter()
    result = read_documents(text.encode(), file="a.yaml")
    if not result.complete:
        return seen
    nodes = list(yaml.compose_all(text, Loader=yaml.CSafeLoader))
    for document in result.documents:
        oracle, root = Oracle(text), nodes[document.index - 1]
        for path, line in oracle.lines(root, document.body, (), root.start_mark.line + 1):
            ours = document.lines.line_of(path)
            if line == ALIAS:
                assert "*" in oracle.rows[ours - 1], (path, ours)
            else:
                assert ours == line, path
            seen["alias" if line == ALIAS else "merge" if "<<" in oracle.rows[ours - 1] else "written"] += 1
    return seen


def test_every_path_has_the_line_where_it_is_written():
    author = Author(Random(1), 0.0)
    seen: Counter[str] = Counter()
    for number in range(1_500):
        text = author.file(f"f{number}")
        if text.lstrip()[:2] != '{"':  # JSON has escapes that PyYAML does not know
            seen += check_lines(text)
    assert min(seen["written"] / 20, seen["alias"], seen["merge"]) > 200, seen


@pytest.mark.upstream
def test_every_path_of_real_manifests_has_the_line_where_it_is_written(shared):
    seen: Counter[str] = Counter()
    for file in sorted((shared / "upstream").rglob("*.yaml")):
        text = file.read_text(encoding="utf-8")
        if "kind: List" not in text:
            seen += check_lines(text)
    assert seen["written"] > 100_000
