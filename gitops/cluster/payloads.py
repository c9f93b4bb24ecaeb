"""Payloads as a server-side apply sees them: which members never become owned, and how a path in one is shown."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from gitops.cluster import list_items
from gitops.cluster.list_items import Layout
from gitops.cluster.managed_fields import Element, ElementKind, Tree, child, tree_of
from gitops.manifests import sanitizing
from gitops.manifests.lines import Path

SERVER_ROOT = frozenset({"apiVersion", "kind", "status"})
"""Members of an object that an apply to the main resource never owns (managedfields, stripmeta; rest, ResetFields)."""

SERVER_METADATA = frozenset({"name", "namespace", *sanitizing.SERVER_METADATA})
"""Members of metadata that are stripped from every set of owned fields; uid and resourceVersion are preconditions."""


_OTHER_IN_YAML = re.compile(
    rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8\xa9]|\xef\xbf[\xbe\xbf]|\xef\xbb\xbf",
)


def as_yaml(payload: bytes) -> bytes:
    """JSON that a YAML parser reads as the same value: what JSON may hold in the open and YAML may not is escaped.

    The server parses an apply as YAML 1.1: DEL, C1 controls and two non-characters are refused there ("control
    characters are not allowed"); NEL, LS and PS are line breaks, so a text with one silently became another.
    """
    return _OTHER_IN_YAML.sub(lambda found: b"\\u%04x" % ord(found[0].decode()), payload)


def ownable(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The payload without what cannot be owned. Shallow: values are shared with the payload."""
    body = {k: v for k, v in payload.items() if k not in SERVER_ROOT}
    metadata = body.get("metadata")
    if isinstance(metadata, dict):
        kept = {k: v for k, v in metadata.items() if k not in SERVER_METADATA}
        if kept:
            body["metadata"] = kept
        else:
            del body["metadata"]
    return body


def describe(path: Path, payload: Any, entry: Mapping[str, Any] | None = None) -> str:
    """A path as people read it: `spec.components[name=decode].replicas`, `metadata.labels["a.b/c"]`, `spec.args[0]`.

    An item is shown by its keys where our `entry` (or a `name` of its own) tells them, else by its position.
    """
    text = ""
    value: Any = payload
    node: Tree | None = tree_of(entry)
    for step in path:
        if isinstance(step, int) and isinstance(value, list):
            item = value[step] if step < len(value) else None
            element = _item_element(value, step, node)
            text += str(element) if element is not None else f"[{step}]"
            node = child(node, element) if node is not None and element is not None else None
            value = item
        else:
            name = str(step)
            text += _field(name, first=not text)
            node = child(node, Element(ElementKind.FIELD, name)) if node is not None else None
            value = value.get(step) if isinstance(value, dict) else None
    return text or "(object)"


def _item_element(items: list[Any], position: int, node: Tree | None) -> Element | None:
    shape = list_items.shape_of(node)
    if position >= len(items):
        return None
    if shape.layout in (Layout.KEYED, Layout.SET):
        owned = list_items.owned_items(node)
        key = list_items.resolve(items, shape, owned)[position]
        return owned[key][0] if key in owned else list_items.element_of(items[position], shape, key)
    item = items[position]
    if shape.layout is Layout.UNKNOWN and isinstance(item, dict) and isinstance(item.get("name"), str):
        same_name = [i for i in items if isinstance(i, dict) and i.get("name") == item["name"]]
        if len(same_name) == 1:
            return Element(ElementKind.KEY, (("name", item["name"]),))
    return None


_PLAIN = re.compile(r"[A-Za-z_$][\w$-]*\Z")


def _field(name: str, *, first: bool) -> str:
    if not _PLAIN.match(name):
        return f'["{name}"]'
    return name if first else f".{name}"
