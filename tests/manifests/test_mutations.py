"""Real manifests and generated files, damaged: never an exception, and always a line that exists."""

from collections.abc import Iterator
from pathlib import Path as FilePath
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from yaml_kit.generating import PIECES, Author

from gitops.manifests.canonical import canonical_json
from gitops.manifests.checking import check_object
from gitops.manifests.lines import Path
from gitops.manifests.quantities import canonical_resources
from gitops.manifests.reading import read_documents
from gitops.manifests.sanitizing import prepare_body
from gitops.model.findings import Finding, Severity


def paths(value, path: Path = ()) -> Iterator[Path]:
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for segment, child in children:
        yield from paths(child, (*path, segment))


def survives(data: bytes) -> bool:
    """Read whatever it is, as far as an object goes before overlays; whether there was something to read."""
    result = read_documents(data, file="a.yaml")
    last = data.count(b"\n") + 1

    def well_formed(found: Finding) -> bool:
        return found.origin.file == "a.yaml" and found.origin.line <= last and 0 < len(found.message) <= 1_000

    assert all(well_formed(f) for f in result.findings)
    assert result.complete == (not any(f.severity is Severity.ERROR for f in result.findings))
    assert result.readable or not result.documents
    for document in result.documents:
        assert all(1 <= document.lines.line_of(path) <= last for path in paths(document.body))
        assert 1 <= document.line <= last
        assert all(well_formed(f) and f.origin.line for f in check_object(document))
        if isinstance(document.body, dict):
            prepared, _ = prepare_body(document.body)
            assert prepare_body(prepared) == (prepared, ())
            canonical = canonical_resources(prepared)
            assert canonical_resources(canonical) is canonical
            canonical_json(canonical)
    return bool(result.documents)


_EDITS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),  # where, as a share of the file
        st.integers(0, 40),  # bytes that go
        st.sampled_from([piece.encode() for piece in PIECES]) | st.binary(max_size=4),
    ),
    min_size=1,
    max_size=4,
)


def edited(data: bytes, edits: list[tuple[float, int, bytes]]) -> bytes:
    for where, gone, new in edits:
        at = int(where * len(data))
        data = data[:at] + new + data[at + gone :]
    return data


@pytest.fixture(scope="module")
def real_manifests(shared: FilePath) -> list[bytes]:
    files = sorted((shared / "upstream").rglob("*.yaml"))
    return [data for data in (file.read_bytes() for file in files) if len(data) < 20_000]


@given(st.data())
@settings(max_examples=500)
def test_damaged_real_manifests(real_manifests, data):
    assert len(real_manifests) > 100
    survives(edited(data.draw(st.sampled_from(real_manifests)), data.draw(_EDITS)))


@given(st.data())
@settings(max_examples=200)
def test_lines_of_real_manifests_in_another_order(real_manifests, data):
    rows = data.draw(st.sampled_from(real_manifests)).split(b"\n")
    start, end, to = (data.draw(st.integers(0, len(rows))) for _ in range(3))
    moved = rows[min(start, end) : max(start, end)]
    survives(b"\n".join([*rows[:to], *moved, *rows[to:]]))


@pytest.mark.parametrize("odd", [0.0, 0.02, 0.1, 0.5])
def test_generated_files(odd):
    author = Author(Random(7), odd)
    read = sum(survives(author.file(f"f{n}").encode()) for n in range(1_500))
    assert read > (1_200 if not odd else 10)


@given(st.integers(0, 2**32), _EDITS)
@settings(max_examples=300)
def test_damaged_generated_files(seed, edits):
    survives(edited(Author(Random(seed), 0.02).file("a").encode(), edits))


@given(st.binary(max_size=200))
@settings(max_examples=500)
def test_any_bytes(data):
    survives(data)
