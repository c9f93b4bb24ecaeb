"""`kind: List` documents: the wrapper is packaging, its items are the objects.

kubectl's rule: whatever has `items` is a list. Ours is narrower, because a custom resource may have a field `items` of
its own: `kind: List`, or a kind that ends in List beside a list of objects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gitops.manifests import codes
from gitops.manifests.building import FileState
from gitops.manifests.lines import NO_TEXTS, LineMap, Path, pack, step, unpack

if TYPE_CHECKING:
    from gitops.manifests.reading import RawDocument


def flatten(document: RawDocument, state: FileState) -> list[RawDocument] | None:
    """The document itself, or the items of a List in their order, nested ones too; None after an error."""
    found: list[RawDocument] = []
    return found if _flatten(document, (), state, found) else None


def _flatten(document: RawDocument, path: Path, state: FileState, found: list[RawDocument]) -> bool:
    body = document.body
    if not isinstance(body, dict) or not _is_list(body):
        found.append(document)
        return True
    where = f"document {document.index}: "
    kind = body.get("kind")
    if not isinstance(kind, str):
        line = document.lines.line_of(("items",))
        state.add(codes.LIST_WITHOUT_KIND, f"{where}a list of objects without kind", line=line, path=path)
        return False
    items = body.get("items")
    if items is None:
        items = []
    if not isinstance(items, list) or "items" not in body:
        line = document.lines.line_of(("items",))
        state.add(codes.BAD_ITEMS, f"{where}a {kind} whose `items` is not a list", line=line, path=(*path, "items"))
        return False
    good = True
    for position, item in enumerate(items):
        here = (*path, "items", position)
        lines = document.lines.at(("items", position))
        if not isinstance(item, dict):
            state.add(codes.BAD_ITEMS, f"{where}item {position} is not an object", line=lines.line, path=here)
            good = False
            continue
        item = _with_implied_kind(item, kind, body.get("apiVersion"))
        raw = type(document)(item, document.index, lines.line, _compact(lines, item), document.file)
        good = _flatten(raw, here, state, found) and good
    return good


def _is_list(body: dict[str, Any]) -> bool:
    kind, items = body.get("kind"), body.get("items")
    if kind == "List":
        return True
    if isinstance(kind, str):
        return kind.endswith("List") and "items" in body and (items is None or _objects(items))
    return "kind" not in body and "Kind" not in body and isinstance(items, list) and _objects(items)


def _objects(items: Any) -> bool:
    return isinstance(items, list) and all(isinstance(i, dict) for i in items)


def _with_implied_kind(item: dict[str, Any], list_kind: str, api_version: Any) -> dict[str, Any]:
    """Items of a ConfigMapList may leave out both kind and apiVersion (unstructured.UnstructuredJSONScheme does so)."""
    if list_kind == "List" or "kind" in item or "apiVersion" in item:
        return item
    return {"apiVersion": api_version, "kind": list_kind.removesuffix("List"), **item}


def _compact(lines: LineMap, body: Any) -> LineMap:
    """A map of the item alone, so that one object of a long List does not keep the lines of all."""
    table, kept, texts = unpack(lines.blob), {}, {}

    def walk(value: Any, source: int, target: int) -> None:
        if source in table and source != lines.root:
            kept[target] = table[source]
        if source in lines.texts:
            texts[target] = lines.texts[source]
        if isinstance(value, dict):
            for key, child in value.items():
                walk(child, step(source, key), step(target, key))
        elif isinstance(value, list):
            for position, child in enumerate(value):
                walk(child, step(source, position), step(target, position))

    walk(body, lines.root, 0)
    return LineMap(pack(kept), lines.line, texts=texts or NO_TEXTS)
