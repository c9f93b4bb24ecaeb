"""What others changed of an object that an operator made, found without knowing what the operator wants. Pure.

The program that made an object is the one that owns its ownerReferences: it set them, and with them the rest of its
spec (so do the NIM and Dynamo operators and the controllers of Kubernetes, as recorded). A field that another manager
owns there was set by that one since; when the operator puts its own value back, the field is the operator's again. So
the object itself says all: nothing is remembered, and a restart changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gitops.cluster import managed_fields
from gitops.cluster.managed_fields import Element, ElementKind, OwnedPath, Tree, Writer
from gitops.cluster.values import ABSENT, MASK_OTHER, conceal
from gitops.manifests.lines import Path
from gitops.model.identity import GroupKind
from gitops.policy.ownership import Ownership

MOST_EDITS = 5
"""Fields of one object that are told."""

_CLUSTER = frozenset(
    {"kube-controller-manager", "kube-scheduler", "kubelet", "kube-apiserver", "cloud-controller-manager"}
)
"""Kubernetes itself: it binds, scales, allocates and fills in, as is its work (names of its components' clients)."""

_NOT_SPEC = frozenset({"metadata", "status", "apiVersion", "kind"})
_RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


@dataclass(frozen=True, slots=True)
class ChildEdit:
    """A field of a live object that somebody else than its maker has set. `shown` is the path as people read it;
    `value` is what is there now, ABSENT when nothing is, with what must not be shown replaced."""

    shown: str
    value: Any
    writer: Writer
    masked: bool = False


def child_edits(live: Mapping[str, Any], ours: str, *, table: Ownership) -> tuple[ChildEdit, ...]:
    """At most MOST_EDITS, in the order of managedFields. Not what we, Kubernetes itself, or those to whom the ownership
    table gives the field have set; () when nobody can tell who made the object."""
    metadata = live.get("metadata") or {}
    entries = managed_fields.entries(live)
    if not metadata.get("ownerReferences") or metadata.get("deletionTimestamp") or len(entries) < 2:
        return ()
    made = [entry for entry in entries if _owns_references(entry)]
    makers = {str(entry.get("manager") or "") for entry in made}
    if not made:
        return ()
    version = made[0].get("apiVersion")  # trees at another one have other paths
    of_makers = [tree for e in entries if e.get("manager") in makers if (tree := managed_fields.tree_of(e))]
    found: list[ChildEdit] = []
    for entry in entries:
        writer, tree = managed_fields.writer_of(entry), managed_fields.tree_of(entry)
        known = writer.manager in makers or writer.manager in _CLUSTER or writer.manager == ours
        if known or tree is None or writer.subresource == "status" or entry.get("apiVersion") != version:
            continue
        for path in _foreign(tree, of_makers, ()):
            if len(found) == MOST_EDITS:
                return tuple(found)
            if not _is_given(path, live, writer, table):
                found.append(_edit(live, path, writer))
    return tuple(found)


def _owns_references(entry: Mapping[str, Any]) -> bool:
    tree = managed_fields.tree_of(entry) or {}
    metadata = tree.get("f:metadata")
    return isinstance(metadata, dict) and "f:ownerReferences" in metadata


def _foreign(node: Tree, makers: Sequence[Tree], path: OwnedPath) -> Iterator[OwnedPath]:
    """The topmost paths that a manager owns and no maker does."""
    for name, sub in node.items():
        element = managed_fields.parse_element(name)
        if element is None or not isinstance(sub, dict) or (not path and element.value in _NOT_SPEC):
            continue
        here = (*path, element)
        theirs = [t for m in makers if (t := managed_fields.child(m, element)) is not None]
        if managed_fields.is_member(sub) and not any(map(managed_fields.is_member, theirs)):
            yield here
        else:
            yield from _foreign(sub, theirs, here)


def _is_given(path: OwnedPath, live: Mapping[str, Any], writer: Writer, table: Ownership) -> bool:
    """Whether the field is the writer's by a rule, or a restart by hand, which describes no state."""
    if path[-1].value == _RESTARTED_AT:
        return True
    group = str(live.get("apiVersion", "")).rpartition("/")[0]
    kind = GroupKind(group, str(live.get("kind", "")))
    answer = table.answer(kind, writer.manager, writer.subresource, _names(path), default="take", scaled=True)
    return answer == "yield"


def _edit(live: Mapping[str, Any], path: OwnedPath, writer: Writer) -> ChildEdit:
    holder, value = managed_fields.value_at(live, path[:-1]), managed_fields.value_at(live, path)
    value = ABSENT if value is None else value
    shown, masked = conceal(value, MASK_OTHER, path=_names(path), kind=str(live.get("kind", "")), owner=holder)
    return ChildEdit(_shown(path), shown, writer, masked)


def _names(path: OwnedPath) -> Path:
    return tuple(str(element) for element in path)


def _shown(path: OwnedPath) -> str:
    """`spec.template.spec.containers[name=web].image`"""
    return "".join(map(_step, path)).removeprefix(".")


def _step(element: Element) -> str:
    if element.kind is not ElementKind.FIELD:
        return str(element)
    return f".{element}" if str(element).replace("-", "").replace("_", "").isalnum() else f'["{element}"]'
