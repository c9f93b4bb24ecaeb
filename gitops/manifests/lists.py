"""`kind: List` documents: the wrapper is packaging, its items are the objects.

kubectl's rule (unstructuredJSONScheme.decode): whatever has `items` is a list, and its items are all that is applied.
So a List, or a kind that ends in List, is taken apart; any other kind with `items` is refused, since kubectl would drop
the object and apply what is in it. Unlike kubectl, a List may be an item of a List.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gitops.manifests import codes, scalars
from gitops.manifests.file_state import FileState
from gitops.manifests.lines import NO_TEXTS, ROOT, LineMap, Path, hash_of, pack, step, unpack
from gitops.manifests.raw import RawDocument


def flatten(document: RawDocument, state: FileState) -> list[RawDocument] | None:
    """The document itself, or the items of a List in their order, nested ones too; None after an error."""
    if not _is_list(document.body):
        return [document]
    flattening = _Flattening(document, state)
    good = flattening.items_of(document.body, ())
    return flattening.found if good else None


class _Flattening:
    """The items of one document; paths are those of the document, so that its line table is opened only once."""

    def __init__(self, document: RawDocument, state: FileState) -> None:
        self._document = document
        self._state = state
        self._table = unpack(document.lines.blob)
        self.found: list[RawDocument] = []

    def items_of(self, body: dict[str, Any], path: Path) -> bool:
        kind, items = body.get("kind"), body.get("items")
        if not isinstance(kind, str):
            return self._refuse(codes.LIST_WITHOUT_KIND, "a list of objects without kind", path)
        if not kind.endswith("List"):
            message = f"a {scalars.shown(kind)} with `items`, which kubectl takes for a list of other objects"
            return self._refuse(codes.BAD_ITEMS, message, (*path, "items"))
        if "items" in body and items is None:
            items = []
        if not isinstance(items, list):
            return self._refuse(
                codes.BAD_ITEMS, f"a {scalars.shown(kind)} whose `items` is not a list", (*path, "items")
            )
        good = True
        for position, item in enumerate(items):
            here = (*path, "items", position)
            if not isinstance(item, dict):
                good = self._refuse(codes.BAD_ITEMS, f"item {position} is not an object", here)
            elif _is_list(item):
                good = self.items_of(item, here) and good
            else:
                self._add(_with_implied_kind(item, kind, body.get("apiVersion")), here)
        return good

    def _add(self, body: dict[str, Any], path: Path) -> None:
        lines = self._lines_of(body, path)
        document = replace(self._document, body=body, line=lines.line, lines=lines)
        self.found.append(document)

    def _refuse(self, code: str, message: str, path: Path) -> bool:
        document = self._document
        line = document.lines.line_of(path)
        self._state.add(code, f"document {document.index}: {message}", line=line, path=path)
        return False

    def _lines_of(self, body: Any, path: Path) -> LineMap:
        """A map of the item alone, so that one object of a long List does not keep the lines of all."""
        whole, table = self._document.lines, self._table
        kept: dict[int, int] = {}
        texts: dict[int, str] = {}

        def walk(value: Any, source: int, target: int) -> None:
            if source in whole.texts:
                texts[target] = whole.texts[source]
            children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for segment, child in children:
                below, own = step(source, segment), step(target, segment)
                if below in table:
                    kept[own] = table[below]
                walk(child, below, own)

        walk(body, hash_of(path, whole.root), ROOT)
        return LineMap(pack(kept), whole.line_of(path), texts=texts or NO_TEXTS)


def _is_list(body: Any) -> bool:
    if not isinstance(body, dict):
        return False
    if isinstance(body.get("kind"), str):
        return "items" in body or body["kind"] == "List"
    items = body.get("items")
    is_list = isinstance(items, list) and all(isinstance(item, dict) for item in items)
    return is_list and "kind" not in body and "Kind" not in body  # else it is no object at all: see checking.py


def _with_implied_kind(item: dict[str, Any], list_kind: str, api_version: Any) -> dict[str, Any]:
    """Items of a ConfigMapList may leave out both kind and apiVersion (unstructured.UnstructuredJSONScheme does so)."""
    if list_kind == "List" or "kind" in item or "apiVersion" in item:
        return item
    return {"apiVersion": api_version, "kind": list_kind.removesuffix("List"), **item}
