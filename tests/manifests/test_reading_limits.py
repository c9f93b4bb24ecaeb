"""Whatever the bytes hold: a result, in bounded time and memory, and never an exception."""

import sys
import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitops.manifests import codes
from gitops.manifests.canonical import canonical_json
from gitops.manifests.file_state import DEFAULT_LIMITS, Limits
from gitops.manifests.reading import read_documents


def codes_of(data: bytes, **limits: int) -> list[str]:
    result = read_documents(data, file="a.yaml", limits=Limits(**limits))
    assert not result.readable
    assert result.documents == ()
    return [f.code for f in result.findings]


def test_a_file_beyond_the_size_limit_is_not_parsed():
    assert codes_of(b"a: 1\n" * 100, file_bytes=400) == [codes.FILE_TOO_LARGE]


def test_values_are_counted_over_the_whole_file():
    assert codes_of(b"a: [1, 2]\n---\n" * 10, nodes=30) == [codes.TOO_MANY_NODES]


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "a:\n"])
@pytest.mark.parametrize("levels", [250, 1_000, 100_000])
def test_deep_nesting_ends_before_the_recursion_limit(opening, levels):
    if opening == "a:\n":
        text = "".join(" " * n + "a:\n" for n in range(min(levels, 1_000)))
    else:
        text = opening * levels
    started = time.process_time()
    found = codes_of(text.encode())
    assert set(found) & {codes.TOO_DEEP, codes.SYNTAX, codes.COMPLEX_KEY}
    assert time.process_time() - started < 10


def test_depth_within_the_limit_is_read():
    depth = DEFAULT_LIMITS.depth
    result = read_documents(("[" * depth + "]" * depth).encode(), file="a.yaml")
    assert result.complete
    assert codes_of(("[" * (depth + 1) + "]" * (depth + 1)).encode()) == [codes.TOO_DEEP]


def test_depth_counts_through_aliases():
    nested = "a: &a " + "[" * 150 + "]" * 150 + "\nb: " + "[" * 60 + "*a" + "]" * 60 + "\n"
    assert codes_of(nested.encode()) == [codes.TOO_DEEP]
    again = "a: &a [1]\n" + "".join(f"a{n}: &a [*a]\n" for n in range(300))
    assert codes.CYCLE in [f.code for f in read_documents(again.encode(), file="a.yaml").findings]
    plain = "plain: [" + "1, " * 1_000 + "1]\n"  # so that the aliases' share stays small
    chain = plain + "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 300))
    assert codes_of(chain.encode()) == [codes.TOO_DEEP]


def test_reading_works_deep_in_a_call_stack():
    def down(levels: int) -> bool:
        return read_documents(b"[" * 180 + b"]" * 180, file="a").complete if levels == 0 else down(levels - 1)

    assert down(sys.getrecursionlimit() - 700)


def test_the_number_of_findings_is_bounded():
    result = read_documents(b"a: !x 1\n" * 5_000, file="a.yaml")
    assert len(result.findings) == DEFAULT_LIMITS.findings + 1
    assert result.findings[-1].code == codes.TOO_MANY_FINDINGS
    assert not result.complete


def test_warnings_neither_hide_errors_nor_refuse_a_file():
    result = read_documents(b"a: [" + b"y, " * 5_000 + b"n]\n", file="a.yaml")
    assert result.complete
    assert [f.code for f in result.findings] == [codes.AMBIGUOUS_BOOLEAN] * DEFAULT_LIMITS.findings
    result = read_documents(b"a: [" + b"y, " * 5_000 + b"!x n]\n", file="a.yaml")
    assert result.findings[-1].code == codes.TAG


def test_paths_and_messages_of_findings_are_bounded():
    long = b"k" * 1_000_000
    nested = b"? " + long + b"\n: " + b"{a: " * 150 + b"!x 1" + b"}" * 150
    for data in (nested, b"a: !" + long + b" 1\n", b"a: *" + long, b"&" + long + b" a: 1\n*" + long + b" : 2\n"):
        for found in read_documents(data, file="a.yaml").findings:
            assert len(found.path) <= 64
            assert sum(len(str(part)) for part in found.path) < 1_000
            assert len(found.message) <= 1_000


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a: '" + "x" * 2_000_000 + "'", id="long-text"),
        pytest.param("a: " + "\n" * 2_000_000, id="empty-lines"),
        pytest.param("#" * 2_000_000, id="comment"),
        pytest.param("- " * 2_000, id="dashes"),
        pytest.param("&a " * 100_000, id="anchors"),
        pytest.param("? " * 100_000, id="complex-keys"),
        pytest.param("[" * 100_000 + "]" * 100_000, id="brackets"),
        pytest.param("{" * 100_000, id="braces"),
        pytest.param("a: &a [" + "1," * 100_000 + "]\nb: [" + "*a," * 100_000 + "]", id="aliases"),
        pytest.param("a: 1" + "0" * 1_000_000, id="digits"),
        pytest.param("a: 0x" + "f" * 1_000_000, id="hex-digits"),
        pytest.param("a: " + "_" * 1_000_000 + "1", id="underscores"),
        pytest.param("a: 1" + "_" * 1_000_000 + "e1", id="more-underscores"),
        pytest.param("kind: List\nitems:\n" + "- kind: A\n  spec:\n    x: 1\n" * 20_000, id="many-items"),
        pytest.param(
            "\n".join(f"{'  ' * n}{'- ' if n else ''}kind: List\n{'  ' * (n + (n > 0))}items:" for n in range(90))
            + ("\n" + "  " * 90 + "- kind: A") * 10_000,
            id="nested-lists",
        ),
        pytest.param("%TAG ! x\n" * 1_000 + "---\na: 1", id="directives"),
    ],
)
def test_hostile_files_end_soon(text):
    started = time.process_time()
    read_documents(text.encode(), file="a.yaml")
    assert time.process_time() - started < 10


SMALL = Limits(file_bytes=400_000, nodes=30_000, alias_characters=400_000)
FULL = SMALL.file_bytes - 100


def tower(levels: int, template: bytes, first: bytes, width: int) -> bytes:
    """Anchors one over the other, each naming the one before it `width` times."""
    rows = [b"l0: &l0 " + first]
    rows += [template % (n, n, b"*l%d, " % (n - 1) * width) for n in range(1, levels)]
    return b"\n".join(rows)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"a: &a [" + b"x, " * 1_000 + b"]\n" + b"b: [" + b"*a, " * 90_000 + b"]", id="flat-aliases"),
        pytest.param(tower(60, b"l%d: &l%d [%s]", b"x", 9), id="laughs"),
        pytest.param(b"a: &a '" + b"x" * 300_000 + b"'\nb: [" + b"*a, " * 20_000 + b"]", id="one-long-text"),
        pytest.param(b"a: &a {? " + b"k" * 99_000 + b" : 1}\nb: [" + b"{<<: *a}, " * 30_000 + b"]", id="one-long-key"),
        pytest.param(
            b"a: &a {" + b"".join(b"k%d: 1, " % n for n in range(5_000)) + b"}\nb:\n" + b"- {<<: [*a, *a]}\n" * 9_000,
            id="merges",
        ),
        pytest.param(tower(200, b"l%d: &l%d {<<: [%s]}", b"{a: 1}", 99), id="merge-tower"),
        pytest.param(b"[" * FULL, id="brackets"),
        pytest.param(b'{"a":[' + b"[]," * (FULL // 3) + b'"\\/"]}', id="json-lists"),
        pytest.param(b'{"a":' * (FULL // 5), id="json-depth"),
        pytest.param(b"- \n" * (FULL // 3), id="nulls"),
        pytest.param(b"---\na\n" * (FULL // 6), id="documents"),
        pytest.param(b"---\n" * (FULL // 4), id="empty-documents"),
        pytest.param(b"a: !x 1\n" * (FULL // 8), id="errors"),
        pytest.param(b"k: [" + b"y, " * 25_000 + b"]", id="warnings"),
        pytest.param(b"? " + b"k" * FULL, id="a-key-that-fills-the-file"),
        pytest.param(b"a: &" + b"k" * 190_000 + b" 1\nb: *" + b"k" * 190_000, id="long-anchors"),
        pytest.param("\x85".encode() * (FULL // 2), id="odd-line-breaks"),
        pytest.param(b"a: |\n" + b"  x\n" * (FULL // 4), id="one-block-text"),
        pytest.param(b"a: [" + b"0x1, " * 29_000 + b"]", id="words-of-numbers"),
        pytest.param(b"kind: List\nitems:\n" + b"- {a: 1}\n" * 9_000, id="items"),
    ],
)
def test_memory_is_bounded_whatever_a_file_holds(data):
    """A file may cost some thirty times its own limit while it is read, never what it expands to. At a tenth of the
    usual limits, for measuring is slow."""
    assert len(data) <= SMALL.file_bytes
    tracemalloc.start()
    try:
        result = read_documents(data, file="a.yaml", limits=SMALL)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 30 * SMALL.file_bytes
    assert len(result.findings) <= 2 * SMALL.findings + 1
    assert result.complete == (not any(f.severity == "error" for f in result.findings))


def test_what_a_file_may_hold_can_also_be_carried_on():
    """The pipeline copies and encodes objects: what passes the budgets stays small there too."""
    text = "a: &a '" + "x" * 40_000 + "'\nb: [" + "*a, " * 100 + "]"
    (document,) = read_documents(text.encode(), file="a.yaml").documents
    assert len(canonical_json(document.body)) < 2 * DEFAULT_LIMITS.file_bytes


_WORDS = ["a: ", "- ", "  ", "[", "]", "{", "}", ",", "&x ", "*x", "<<: ", "!!str ", "!t ", "? ", "'", '"', "%", "\t"]
_LINES = ["b:", "---", "...", ">-", "#c", "kind: List", "items:", ""]
_PIECES = st.sampled_from([*_WORDS, "1", "08", ".inf", "y", "null", "|", *(f"{line}\n" for line in _LINES)])


@given(st.lists(_PIECES, max_size=40).map("".join))
@settings(max_examples=400)
@example("*x: 1")
@example("{[a]: 1, ? {b: 1} : 2}")
@example("&x a: 1\n*x : 2\n")
def test_no_text_raises(text):
    result = read_documents(text.encode(), file="a.yaml")
    assert result.complete or any(f.severity == "error" for f in result.findings)
    assert all(f.origin.file == "a.yaml" for f in result.findings)
    assert all(d.lines.line_of(()) >= 1 and d.body is not None for d in result.documents)
