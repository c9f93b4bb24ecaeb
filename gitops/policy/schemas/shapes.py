"""Which lists of which kind have keys: from the tables that ship (policies/schemas/*.yaml) and from definitions.

A table has `structures`, which kinds share, and `kinds`. Both map paths (`*` is any key of a map) to what is there:
`set`, the keys of a list with their defaults, or the name of a structure. What is not mentioned is replaced as a whole,
which is what the API server does with a list that says nothing (Kubernetes documentation, "Server-Side Apply", "Merge
strategy").
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.resources.abc import Traversable
from typing import Any

from gitops.manifests.canonical import digest
from gitops.manifests.reading import read_documents
from gitops.model.identity import GroupVersionKind
from gitops.overlays.shapes import ListKind, Shape

_OUT_OF_REACH = frozenset({"metadata", "status"})
"""Parts of an object whose lists are not for overlays: finalizers and the like, and what the cluster writes."""


@dataclass(frozen=True, slots=True)
class SchemaIndex:
    """Shapes by exact kind. `digest` is of the tables: what they say changes what is made of the same repository."""

    kinds: Mapping[GroupVersionKind, Shape]
    digest: bytes = b""

    @classmethod
    def load(cls, folder: Traversable) -> SchemaIndex:
        """Read every *.yaml of a folder. Trusted data: raises ValueError or KeyError for a file that is wrong."""
        kinds: dict[GroupVersionKind, Shape] = {}
        content = []
        for file in sorted(folder.iterdir(), key=lambda f: f.name):
            if file.name.endswith(".yaml"):
                content.append(file.read_bytes())
                kinds |= read_table(content[-1], file.name)
        return cls(kinds, digest(b"\n".join(content)))

    def shape(self, kind: GroupVersionKind) -> Shape | None:
        """What the schema of exactly this kind says of its lists; None when no schema is known."""
        return self.kinds.get(kind)

    def extended(self, definitions: Iterable[Mapping[str, Any]]) -> SchemaIndex:
        """This index and the kinds of CustomResourceDefinitions, which win: the cluster will have them."""
        more = {kind: shape for body in definitions for kind, shape in shapes_of_definition(body)}
        return SchemaIndex({**self.kinds, **more}, self.digest) if more else self


NO_SCHEMAS = SchemaIndex({})


# -- tables ------------------------------------------------------------------------------------------------------------


def read_table(text: bytes, name: str) -> dict[GroupVersionKind, Shape]:
    """The kinds of a table; a structure comes before those that use it. Raises ValueError or KeyError when wrong."""
    result = read_documents(text, file=name)
    if result.findings:
        raise ValueError("; ".join(map(str, result.findings)))
    (document,) = result.documents
    structures: dict[str, Shape] = {}
    for structure, table in document.body["structures"].items():
        structures[structure] = _shape_of_table(table, structures)
    kinds = {}
    for kind, table in document.body["kinds"].items():
        api_version, _, word = kind.partition(" ")
        kinds[GroupVersionKind.parse(api_version, word)] = _shape_of_table(table, structures)
    return kinds


def _shape_of_table(table: Mapping[str, Any], structures: Mapping[str, Shape]) -> Shape:
    tree: dict[str, Any] = {}
    for path, entry in table.items():
        *parents, last = path.removeprefix("/").split("/")
        node = tree
        for segment in parents:
            node = node.setdefault(segment, {})
        node[last] = _entry(entry, structures)
    return _frozen(tree)


def _entry(entry: Any, structures: Mapping[str, Shape]) -> Shape:
    if entry == "set":
        return Shape(kind=ListKind.SET)
    if isinstance(entry, str):
        return structures[entry]
    items = structures[entry["items"]] if "items" in entry else None
    return Shape(kind=ListKind.MAP, keys=tuple(entry["keys"]), defaults=entry.get("defaults", {}), items=items)


def _frozen(tree: Shape | dict[str, Any]) -> Shape:
    if isinstance(tree, Shape):
        return tree
    fields = {key: _frozen(child) for key, child in tree.items() if key != "*"}
    return Shape(fields, _frozen(tree["*"]) if "*" in tree else None)


# -- structural schemas ------------------------------------------------------------------------------------------------


def shapes_of_definition(definition: Mapping[str, Any]) -> Iterator[tuple[GroupVersionKind, Shape]]:
    """The kinds of a CustomResourceDefinition, however malformed; only those whose schema is in it."""
    spec = _map(definition.get("spec"))
    group, kind = spec.get("group"), _map(spec.get("names")).get("kind")
    versions = spec.get("versions")
    for version in versions if isinstance(versions, list) else ():
        name = _map(version).get("name")
        schema = _map(_map(_map(version).get("schema")).get("openAPIV3Schema"))
        if schema and isinstance(group, str) and isinstance(kind, str) and isinstance(name, str):
            yield GroupVersionKind(group, name, kind), shape_of_schema(schema)


def shape_of_schema(schema: Mapping[str, Any], structures: Mapping[str, Any] | None = None) -> Shape:
    """The shape of an object from its structural schema; `structures` are what `$ref`s name, by their last part."""
    reader = _SchemaReader(structures or {})
    fields = {
        name: shape
        for name, child in _map(schema.get("properties")).items()
        if name not in _OUT_OF_REACH and (shape := reader.shape(child, ())) is not None
    }
    return Shape(fields)


class _SchemaReader:
    """Reads the words that server-side apply goes by; all others are passed over."""

    def __init__(self, structures: Mapping[str, Any]) -> None:
        self._structures = structures

    def shape(self, schema: Any, inside: tuple[str, ...]) -> Shape | None:
        """None when no list with keys and no set is at or below the value."""
        outer, name = _map(schema), self._reference(schema)
        if not outer:
            return None
        if name in inside:
            return None  # the one recursive structure, JSON Schema itself, has no such lists
        inner = outer if name is None else _map(self._structures.get(name))
        inside = inside if name is None else (*inside, name)
        if "atomic" in (outer.get("x-kubernetes-map-type"), inner.get("x-kubernetes-map-type")):
            return None
        if "items" in inner:
            return self._list(inner, inside)
        fields = {
            key: shape
            for key, child in _map(inner.get("properties")).items()
            if (shape := self.shape(child, inside)) is not None
        }
        values = self.shape(inner.get("additionalProperties"), inside)
        return Shape(fields, values) if fields or values else None

    def _list(self, schema: Mapping[str, Any], inside: tuple[str, ...]) -> Shape | None:
        kind, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
        if kind == ListKind.SET:
            return Shape(kind=ListKind.SET)
        if kind != ListKind.MAP or not isinstance(keys, list) or not all(isinstance(key, str) for key in keys):
            return None
        item = _map(schema["items"])
        name = self._reference(item)
        properties = _map((item if name is None else _map(self._structures.get(name))).get("properties"))
        defaults = {key: _map(properties.get(key)).get("default") for key in keys}
        # "" and 0 are what Go has for a field that was left out, no key that anybody means.
        defaults = {key: default for key, default in defaults.items() if default}
        items = self.shape(item, inside)
        return Shape(kind=ListKind.MAP, keys=tuple(keys), defaults=defaults, items=items)

    def _reference(self, schema: Any) -> str | None:
        every = _map(schema).get("allOf")
        only = every[0] if isinstance(every, list) and len(every) == 1 else schema
        reference = _map(only).get("$ref")
        return reference.rpartition("/")[2] if isinstance(reference, str) else None


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
