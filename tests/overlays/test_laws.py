"""Laws of merging: random mixes of merge patches, keyed lists and JSON patches against plain models of each.

The models work on values whose leaves carry where they were written, so that one comparison covers both the result and
who set what.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st
from jsonpointer import JsonPointerException

from gitops.manifests.canonical import canonical_json, same_json
from gitops.manifests.raw import RawDocument
from gitops.manifests.reading import read_documents
from gitops.model.findings import Origin
from gitops.overlays import codes
from gitops.overlays.applying import PatchSource, apply_patches
from gitops.overlays.json_patches import read_operations
from gitops.overlays.patches import RESERVED_PREFIXES, MergePatchSource, Target, content_problems
from gitops.overlays.pointers import written
from gitops.overlays.provenance import Provenance
from gitops.overlays.shapes import ListKind, Shape, merged_order

TARGET = Target("v1", "A", "a")

# The shape of the objects here: `l` is a list with the key `n`, `s` a set, everything else says nothing.
SETS = Shape(kind=ListKind.SET)
INNER = Shape(kind=ListKind.MAP, keys=("n",), items=Shape({"s": SETS}))
SHAPE = Shape(
    {"l": Shape(kind=ListKind.MAP, keys=("n",), items=Shape({"l": INNER})), "s": SETS, "m": Shape({"s": SETS})}
)

_SCALARS = st.integers(-2, 2) | st.sampled_from(["", "x", "y"]) | st.booleans()
_VALUES = st.recursive(
    _SCALARS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_UNIQUE = st.lists(st.sampled_from("pqrs"), max_size=4, unique=True)


def _items(more: dict[str, st.SearchStrategy]) -> st.SearchStrategy:
    """Items of a keyed list, told apart by `n`."""
    item = st.fixed_dictionaries({"n": st.sampled_from("pqrst")}, optional={"a": _VALUES, **more})
    return st.lists(item, max_size=4, unique_by=lambda item: item["n"])


OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "a": _VALUES,
        "b": _VALUES,
        "s": _UNIQUE,
        "m": st.none() | st.fixed_dictionaries({}, optional={"s": _UNIQUE, "a": _VALUES}),
        "l": _items({"l": _items({"s": _UNIQUE})}),
    },
)


@dataclass(frozen=True)
class Leaf:
    """A scalar and where it was written."""

    value: Any
    origin: Origin


def read(value: Any, file: str) -> RawDocument:
    """The value as block YAML, each leaf on a line of its own, read back."""
    lines: list[str] = []

    def write(part: Any, indent: int, prefix: str) -> None:
        pad = " " * indent + prefix
        children = part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ()
        if not children or not part:
            lines.append(pad + canonical_json(part).decode())
            return
        if pad.strip():
            lines.append(pad.rstrip())
        for key, child in children:
            write(child, indent + 1, f'"{key}": ' if isinstance(part, dict) else "- ")

    write(value, 0, "")
    (document,) = read_documents("\n".join(lines).encode(), file=file).documents
    assert same_json(document.body, value)
    return document


def marked(value: Any, document: RawDocument, path: tuple = ()) -> Any:
    """The value with its leaves as Leaf."""
    if isinstance(value, dict):
        return {key: marked(child, document, (*path, key)) for key, child in value.items()}
    if isinstance(value, list):
        return [marked(child, document, (*path, n)) for n, child in enumerate(value)]
    return Leaf(value, Origin(document.file, document.lines.line_of(path)))


def marked_patch(value: Any, document: RawDocument, shape: Shape, path: tuple = ()) -> Any:
    """A merge patch: a null in a map is no value, but inside a list that is replaced it is one."""
    if isinstance(value, dict):
        return {
            key: None if child is None else marked_patch(child, document, shape.below(key), (*path, key))
            for key, child in value.items()
        }
    if isinstance(value, list) and shape.kind is not ListKind.ATOMIC:
        inner = shape.items or Shape()
        return [marked_patch(child, document, inner, (*path, n)) for n, child in enumerate(value)]
    return marked(value, document, path)


def plain(value: Any) -> Any:
    if isinstance(value, Leaf):
        return value.value
    if isinstance(value, dict):
        return {key: plain(child) for key, child in value.items()}
    return [plain(child) for child in value] if isinstance(value, list) else value


class RejectedError(Exception):
    """A patch that the models do not apply."""


def merge_model(target: Any, patch: Any, shape: Shape) -> Any:
    """RFC 7386, word by word; lists that the shape keys item by item."""
    if isinstance(patch, dict):
        result = dict(target) if isinstance(target, dict) else {}
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            else:
                result[key] = merge_model(result.get(key), value, shape.below(key))
        return result
    if isinstance(patch, list) and shape.kind is not ListKind.ATOMIC:
        ours, theirs = (_by_key(items, shape) for items in (target if isinstance(target, list) else [], patch))
        order = merged_order(list(ours), list(theirs))
        inner = shape.items or Shape()
        return [merge_model(ours.get(key), theirs[key], inner) if key in theirs else ours[key] for key in order]
    return patch


def _by_key(items: list[Any], shape: Shape) -> dict[bytes, Any]:
    found = {shape.identify(plain(item)): item for item in items}
    if None in found or len(found) < len(items):
        raise RejectedError
    return found


def operations_model(target: Any, operations: list[Any], file: RawDocument) -> Any:
    """The library, one operation after another; what a copy or move puts somewhere comes from the operation."""
    result = copy.deepcopy(target)
    for number, operation in enumerate(operations):
        try:
            if operation["op"] == "test":
                jsonpatch.apply_patch(plain(result), [operation])
                continue
            step = {k: marked(v, file, (number, "value")) if k == "value" else v for k, v in operation.items()}
            result = jsonpatch.apply_patch(result, [step])
            same = operation.get("from") == operation["path"]  # moving a value to where it is does nothing
            if operation["op"] == "copy" or (operation["op"] == "move" and not same):
                result = _moved(result, operation["path"], Origin(file.file, file.lines.line_of((number,))))
        except (jsonpatch.JsonPatchException, JsonPointerException) as error:
            raise RejectedError from error
    return result


def _moved(document: Any, path: str, origin: Origin) -> Any:
    """The document with all leaves of the value at the path from one place."""
    parent = jsonpatch.JsonPointer(path.rpartition("/")[0]).resolve(document)
    key: Any = path.rpartition("/")[2]
    if isinstance(parent, list):
        key = len(parent) - 1 if key == "-" else int(key)

    def stamp(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: stamp(v) for k, v in value.items()}
        return [stamp(v) for v in value] if isinstance(value, list) else Leaf(value.value, origin)

    parent[key] = stamp(parent[key])
    return document


def paths_in(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, child in children for found in ((*path, str(key)), *paths_in(child, (*path, str(key))))]


@st.composite
def operations(draw: st.DrawFn, document: Any) -> list[dict[str, Any]]:
    """A JSON patch that mostly fits the document."""
    made: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(1, 4))):
        known = paths_in(document)
        somewhere = st.sampled_from(known) if known else st.just(("a",))
        fresh = st.builds(
            lambda path, key: (*path, key), st.just(()) | somewhere, st.sampled_from(["a", "b", "0", "-"])
        )
        op = draw(st.sampled_from(["add", "add", "replace", "remove", "move", "copy", "test"]))
        path = draw(somewhere | fresh if op in ("add", "copy", "move") else somewhere)
        operation: dict[str, Any] = {"op": op, "path": written(path)}
        if op in ("add", "replace"):
            operation["value"] = draw(_VALUES)
        elif op == "test":
            found = jsonpatch.JsonPointer(operation["path"]).resolve(document, None)
            operation["value"] = copy.deepcopy(found) if draw(st.integers(0, 9)) else draw(_VALUES)
        elif op in ("move", "copy"):
            operation["from"] = written(draw(somewhere))
        made.append(operation)
        try:
            document = jsonpatch.apply_patch(document, [operation])
        except (jsonpatch.JsonPatchException, JsonPointerException):
            break
    return made


def leaves(value: Any, path: tuple = ()) -> Any:
    if isinstance(value, Leaf):
        yield path, value
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for segment, child in children:
        yield from leaves(child, (*path, segment))


def containers(value: Any) -> Any:
    if isinstance(value, dict | list):
        yield id(value)
        for child in value.values() if isinstance(value, dict) else value:
            yield from containers(child)


@given(OBJECTS, st.data())
def test_every_mix_is_as_the_models_say_and_every_leaf_names_its_last_writer(base, data):
    start = read(base, "base.yaml")
    expected = marked(start.body, start)
    sources: list[PatchSource] = []
    inputs = [start.body]
    rejected = 0
    for number in range(data.draw(st.integers(0, 4), label="patches")):
        form = data.draw(st.sampled_from(["merge", "keyed", "json"]), label="form")
        body = data.draw(operations(plain(expected)) if form == "json" else OBJECTS, label="patch")
        document = read(body, f"{number}.yaml")
        inputs.append(document.body)
        provenance = Provenance.of_document(document)
        try:
            if form == "json":
                source, problems = read_operations(document.body, provenance, TARGET)
                assert problems == ()
                sources.append(source)
                expected = operations_model(expected, document.body, document)
            else:
                sources.append(MergePatchSource(document.body, provenance, form == "keyed"))
                shape = SHAPE if form == "keyed" else Shape()
                expected = merge_model(expected, marked_patch(document.body, document, shape), shape)
        except RejectedError:
            rejected += 1
    before = copy.deepcopy(inputs)

    result = apply_patches(start.body, Provenance.of_document(start), sources, shape=SHAPE)

    assert same_json(result.body, plain(expected))
    assert bool(result.findings) == bool(rejected)
    for path, leaf in leaves(expected):
        assert result.provenance.origin_of(path) == leaf.origin, path
    assert same_json(inputs, before)
    own = list(containers(result.body))
    assert len(own) == len(set(own))
    assert not set(own) & {each for value in inputs for each in containers(value)}


def merged(base: Any, *patches: tuple[Any, bool]) -> Any:
    """The base with patches (body, by key) merged in; they are sound."""
    sources = [
        MergePatchSource(body, Provenance.of_origin(Origin(f"{n}.yaml", 1)), by_key)
        for n, (body, by_key) in enumerate(patches)
    ]
    result = apply_patches(base, Provenance.of_origin(Origin("base.yaml", 1)), sources, shape=SHAPE)
    assert result.findings == ()
    return result


@given(OBJECTS, OBJECTS)
def test_overrides_are_exactly_the_differences(base, patch):
    result = merged(base, (patch, False))
    for override in result.overridden:
        before, after = base, result.body
        for segment in override.path[:-1]:
            before, after = before[segment], after[segment]
        key = override.path[-1]
        assert same_json(before[key], override.before)
        assert key not in after if override.removed else same_json(after[key], override.after)
    changed = [override.path for override in result.overridden]
    start, end = read(base, "b"), read(result.body, "r")
    kept = {path: leaf.value for path, leaf in leaves(marked(end.body, end))}
    for path, leaf in leaves(marked(start.body, start)):
        if not any(path[: len(each)] == each for each in changed):
            assert same_json(kept[path], leaf.value)


@given(OBJECTS, OBJECTS)
def test_a_keyed_merge_twice_is_once(base, patch):
    once = merged(base, (patch, True)).body
    assert same_json(merged(once, (patch, True)).body, once)
    assert merged(once, (patch, True)).overridden == ()


@given(OBJECTS, OBJECTS)
def test_without_keyed_lists_in_the_schema_a_keyed_merge_is_a_plain_one(base, patch):
    source = MergePatchSource(patch, Provenance.of_origin(Origin("p.yaml", 1)), True)
    found = apply_patches(base, Provenance.of_origin(Origin("b.yaml", 1)), [source], shape=Shape())
    assert same_json(found.body, merged(base, (patch, False)).body)


# Where a schema fixes every type and nothing is removed, it does not matter which two of three are merged first, but
# for the order of items.
_TYPED = st.fixed_dictionaries(
    {},
    optional={
        "a": st.integers(0, 3),
        "s": _UNIQUE,
        "m": st.fixed_dictionaries({}, optional={"s": _UNIQUE, "a": st.booleans()}),
        "l": st.lists(
            st.fixed_dictionaries({"n": st.sampled_from("pqr")}, optional={"a": st.integers(0, 3), "b": st.just([1])}),
            max_size=3,
            unique_by=lambda item: item["n"],
        ),
    },
)


@given(_TYPED, _TYPED, _TYPED)
def test_keyed_merges_are_associative_but_for_the_order_of_items(first, second, third):
    left = merged(merged(first, (second, True)).body, (third, True)).body
    right = merged(first, (merged(second, (third, True)).body, True)).body
    assert same_json(unordered(left), unordered(right))


def unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: unordered(child) for key, child in value.items()}
    return sorted(map(unordered, value), key=canonical_json) if isinstance(value, list) else value


@given(_TYPED, _TYPED)
def test_a_keyed_merge_loses_nothing(base, patch):
    result = merged(base, (patch, True)).body
    assert set(base.get("s", [])) | set(patch.get("s", [])) == set(result.get("s", []))
    names = [item["n"] for item in result.get("l", [])]
    assert sorted(names) == sorted({item["n"] for body in (base, patch) for item in body.get("l", [])})


GUARDED = {
    "apiVersion": "v1",
    "kind": "A",
    "metadata": {
        "name": "a",
        "finalizers": ["f"],
        "ownerReferences": [{"uid": "u"}],
        "labels": {"a": "x", "gitops/b": "y"},
        "annotations": {"applyset.kubernetes.io/c": "z"},
    },
    "spec": {"labels": {"gitops/b": "other"}, "name": "b", "list": [{"finalizers": []}], "template": {"metadata": {}}},
}


def out_of_reach(body: Any) -> Any:
    """What only the base says."""
    metadata = body["metadata"]
    kept = {key: metadata.get(key) for key in ("name", "namespace", "generateName", "finalizers", "ownerReferences")}
    marks = [
        {key: value for key, value in metadata.get(field, {}).items() if key.startswith(RESERVED_PREFIXES)}
        for field in ("labels", "annotations")
    ]
    return [body.get("apiVersion"), body.get("kind"), kept, marks]


_ANYWHERE = st.sampled_from(
    [
        *paths_in(GUARDED),
        *((*path, key) for path in ((), ("metadata",), ("metadata", "labels")) for key in ("namespace", "gitops/new")),
        ("metadata", "finalizers", "-"),
        ("spec", "template", "metadata", "labels"),
        (),
    ]
).map(written)
_PUT = st.sampled_from(["x", {}, [], None, {"gitops/b": "y"}, {"name": "a"}, {"gitops/b": "n"}, GUARDED["metadata"]])


@given(
    st.lists(
        st.fixed_dictionaries({"op": st.sampled_from(["add", "replace"]), "path": _ANYWHERE, "value": _PUT})
        | st.fixed_dictionaries({"op": st.sampled_from(["copy", "move"]), "path": _ANYWHERE, "from": _ANYWHERE})
        | st.fixed_dictionaries({"op": st.just("remove"), "path": _ANYWHERE}),
        min_size=1,
        max_size=3,
    )
)
def test_no_operation_reaches_what_only_the_base_says(patch):
    source, problems = read_operations(patch, Provenance.of_origin(Origin("p.yaml", 1)), TARGET)
    start = Provenance.of_origin(Origin("b.yaml", 1))
    result = apply_patches(GUARDED, start, [] if problems else [source])
    assert same_json(out_of_reach(result.body), out_of_reach(GUARDED))
    assert isinstance(result.body["metadata"].get("labels", {}), dict)
    assert isinstance(result.body["metadata"].get("annotations", {}), dict)
    assert not any(code == codes.RESERVED for code, _, _ in content_problems(result.body.get("spec"), ("spec",)))
