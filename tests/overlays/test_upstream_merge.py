"""Every object of every upstream manifest, merged with overlays that change nothing: exactly what kubectl would send,
and each leaf still knows its file and line."""

import json
from collections.abc import Iterator
from pathlib import Path as FilePath
from random import Random
from typing import Any

import pytest
from yaml_kit import kubectl

from gitops.manifests.canonical import same_json
from gitops.manifests.checking import check_object
from gitops.manifests.lines import Path
from gitops.manifests.raw import RawDocument
from gitops.manifests.reading import read_documents
from gitops.model.findings import Origin
from gitops.overlays import codes
from gitops.overlays.applying import apply_patches
from gitops.overlays.patches import MergePatchSource, read_patch
from gitops.overlays.provenance import Provenance

pytestmark = [
    pytest.mark.upstream,
    pytest.mark.skipif(kubectl.PROGRAM is None, reason="NOT CHECKED against kubectl: there is no kubectl"),
]

OVERLAY = "overlays/same.yaml"
FIRST_LINE = 100_000  # of what overlays say: beyond all lines of all manifests


def document_of(value: Any) -> RawDocument:
    """A patch as it is read from a file, with comments before it so that its lines are its own."""
    text = "# c\n" * FIRST_LINE + json.dumps(value, indent=1)
    (document,) = read_documents(text.encode(), file=OVERLAY).documents
    return document


def source_of(patch: dict[str, Any]) -> MergePatchSource:
    document = document_of(patch)
    return MergePatchSource(document.body, Provenance.of_document(document))


def leaves(value: Any, path: Path = ()) -> Iterator[Path]:
    """Paths of everything that holds nothing."""
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not value or not isinstance(value, (dict, list)):
        yield path
    for segment, child in children:
        yield from leaves(child, (*path, segment))


def repetition(body: dict[str, Any], rng: Random) -> tuple[dict[str, Any], Path] | None:
    """A patch that sets one value of the object to what it is, and the path that is then the patch's: an empty map
    merges nothing, so it changes no path. None when there is only null."""
    path: list[str] = []
    patch: dict[str, Any] = {}
    inside, value = patch, body
    while True:
        key = rng.choice([k for k, v in value.items() if v is not None] or [None])
        if key is None:
            return None
        path.append(key)
        value = value[key]
        if not isinstance(value, dict) or not value:
            inside[key] = value
            return patch, () if value == {} else tuple(path)
        inside[key] = inside = {}


def identity(body: dict[str, Any]) -> dict[str, Any]:
    names = {k: v for k, v in body["metadata"].items() if k in ("name", "namespace")}
    return {"apiVersion": body["apiVersion"], "kind": body["kind"], "metadata": names}


def merged(
    document: RawDocument, patches: list[MergePatchSource], *, rng: Random, changed: Path = ()
) -> dict[str, Any]:
    """The merged body, its provenance checked: `changed` and what is below it comes from the overlay, all else from
    where it is written. Of a definition with its ten thousands of leaves, some."""
    result = apply_patches(document.body, Provenance.of_document(document), patches)
    paths = list(leaves(result.body))
    for path in rng.sample(paths, min(len(paths), 1_000)) + [
        p for p in paths if changed and p[: len(changed)] == changed
    ]:
        origin = result.provenance.origin_of(path)
        if changed and path[: len(changed)] == changed:
            assert origin.file == OVERLAY
            assert origin.line > FIRST_LINE
        else:
            assert origin == Origin(document.file, document.lines.line_of(path)), path
    assert (result.overridden, result.findings) == ((), ())
    return result.body


def merged_in_every_way(document: RawDocument, rng: Random) -> Iterator[dict[str, Any]]:
    yield merged(document, [], rng=rng)
    yield merged(document, [source_of({})], rng=rng)
    patch_file = read_patch(document_of(identity(document.body)))
    if "*" in document.body["metadata"]["name"]:  # what tests of the operator expect, with patterns for names
        assert [f.code for f in patch_file.findings] == [codes.TARGET_IS_PATTERN]
    else:
        assert [f.code for f in patch_file.findings] == [codes.EMPTY_PATCH]
        assert patch_file.target is not None
        assert patch_file.target.matches(document.body)
    yield merged(document, [patch_file.source], rng=rng)
    for _ in range(3):
        if found := repetition(document.body, rng):
            patch, path = found
            yield merged(document, [source_of({}), source_of(patch)], rng=rng, changed=path)


@pytest.mark.parametrize(("folder", "at_least"), [("dynamo", 82), ("nim", 85), ("karta", 13)])
def test_overlays_that_change_nothing_leave_what_kubectl_would_send(
    shared: FilePath, folder: str, at_least: int
) -> None:
    rng, objects = Random(1), 0
    for file in sorted((shared / "upstream" / folder).rglob("*.y*ml")):
        data = file.read_bytes()
        result = read_documents(data, file=file.name)
        documents = [d for d in result.documents if not check_object(d)]
        if not result.complete or not documents:
            continue  # tests/manifests/test_upstream.py lists these files
        theirs = kubectl.read_one(data).objects
        assert len(theirs) == len(documents)
        for document, sent in zip(documents, theirs, strict=True):
            for body in merged_in_every_way(document, rng):
                assert same_json(kubectl.comparable(body), sent), file
            objects += 1
    assert objects >= at_least, objects
