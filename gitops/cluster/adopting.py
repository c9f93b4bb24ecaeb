"""Taking over objects that were made by other means.

Server-side apply removes only what its own manager owned before. After `kubectl apply` of an object, our apply alone
would leave fields that Git drops live for ever, duplicate renamed list items or be refused for them (ssa-live 9). So
the first apply is preceded by one JSON patch that folds the entries of earlier *declaring* managers into ours, and
takes off the marks by which their tools would prune the object or fight for it. Entries of managers that only touched
something (kubectl edit, label, scale, rollout, controllers) stay theirs.

An entry is about one API version, and so is ours. Entries at several versions are folded one version after the other,
each followed by an apply: it takes away what that entry had and Git has not, whatever its version (structured-merge-
diff converts, Updater.prune). An entry at a version that the definition has no more, of whomever, makes
the server refuse every apply, and drop all entries with the next other write; its names are read at the present
version, as Flux does (MigrateAPIVersion).

Never folded: finalizers and owner references, which have their own life; the stamp of a restart, whose removal would be
another; and `replicas` that Git leaves out of something that it declares: dropped by its last owner it would fall to 1,
while an autoscaler that wrote the same number owns nothing (ssa-live 27).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from gitops.cluster import tools
from gitops.cluster.managed_fields import (
    OwnedPath,
    Tree,
    descend,
    entries,
    our_entry,
    parse_element,
    step,
    tree_of,
)
from gitops.cluster.tools import Owner
from gitops.model.adoption import Adoption, Tool
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL
from gitops.policy.builtin_rules import RESTARTED_AT
from gitops.readiness.texts import one_line

BEFORE_FIRST_APPLY = "before-first-apply"
"""The server's name for what was there when the first apply found an object without any entry: all of it, whoever
wrote it. It declares what the annotation of `kubectl apply` says was declared; the rest is nobody's."""

_STAMP = f"f:{RESTARTED_AT}"

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"

DECLARING_MANAGERS = frozenset(
    {
        "kubectl-client-side-apply",
        "kubectl",  # kubectl apply --server-side
        "kubectl-last-applied",  # the same over an object of client-side apply: it has the annotation
        "kubectl-create",
        "kubectl-replace",
        "kubectl-run",
        "kubectl-expose",
    }
)
"""Managers whose fields a person declared with kubectl: what Git declares now takes their place."""

Operations = list[dict[str, Any]]

_decode = msgspec.json.Decoder().decode


# -- who has it ------------------------------------------------------------------------------------------------------


def foreign_owners(
    live: Mapping[str, Any], *, reconciler: str, applyset: str = "", manager: str = ""
) -> tuple[Owner, ...]:
    """Who else declares this object; nobody when we do.

    `applyset` is the id of the unit's parent. An object that carries our reconciler's label is ours whatever unit it is
    of: which unit may have it is decided by the plan. So is one that lost that label, as long as its ApplySet label was
    set by `manager`, which is ours.
    """
    metadata = live.get("metadata") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    if labels.get(RECONCILER_LABEL) == reconciler:
        return ()
    ours = labels.get(PART_OF_LABEL) == applyset or _labelled_by(manager, live)
    return tuple(o for o in tools.owners(live) if not (ours and o.tool is Tool.APPLYSET))


def controller_of(live: Mapping[str, Any], *, manager: str) -> str:
    """The object that made this one and will make it again, as `ReplicaSet web-1`; "" when there is none, or when we
    applied it before it got one."""
    if our_entry(live, manager) is not None:
        return ""
    for owner in (live.get("metadata") or {}).get("ownerReferences") or ():
        if isinstance(owner, dict) and owner.get("controller"):
            return one_line(f"{owner.get('kind')} {owner.get('name')}", 120)
    return ""


def is_ours(live: Mapping[str, Any], *, reconciler: str, manager: str) -> bool:
    """Was it applied by us, for whatever unit, also when it has lost the label by which we watch it?"""
    owner = ((live.get("metadata") or {}).get("labels") or {}).get(RECONCILER_LABEL)
    return owner == reconciler or (owner is None and _labelled_by(manager, live))


def refusal(live: Mapping[str, Any], adoption: Adoption, *, reconciler: str, applyset: str, manager: str) -> str:
    """Why an object that exists may not be taken over; "" when it may, or is ours."""
    controller = controller_of(live, manager=manager)
    if controller:
        return f"it exists and belongs to {controller}, which made it; such objects are never taken over"
    for owner in foreign_owners(live, reconciler=reconciler, applyset=applyset, manager=manager):
        if owner.tool is None:
            return f"it exists and {owner.words} declares it"
        if owner.tool not in adoption.tools:
            return f"it exists and {owner.words} declares it; `adoptFrom: [{owner.tool}]` would take it over"
    if not adoption.allowed and not is_ours(live, reconciler=reconciler, manager=manager):
        return "it exists, made by other means, and `adopt: never` is declared"
    return ""


def _labelled_by(manager: str, live: Mapping[str, Any]) -> bool:
    """Did this manager apply the label that says which ApplySet the object is of?"""
    tree = tree_of(our_entry(live, manager)) or {}
    return f"f:{PART_OF_LABEL}" in ((tree.get("f:metadata") or {}).get("f:labels") or {})


# -- taking over -----------------------------------------------------------------------------------------------------


def take_over(
    live: Mapping[str, Any],
    *,
    manager: str,
    payload: Mapping[str, Any],
    tools_named: Collection[Tool] = (),
    served: Collection[str] | None = None,
    applied: bool = False,
) -> Operations:
    """The next step of taking `live` over for what we declare as `payload`: a JSON patch that holds only for the
    resourceVersion it was made from; empty when our apply alone will do.

    `served` are the API versions of the kind that are served (`group/version`); None: all that entries name. After the
    step and our apply of the payload, look again, with `applied`: entries at several versions need as many steps, and
    our entry may make room for another only when it is exactly what Git has.
    """
    metadata, found = live.get("metadata") or {}, entries(live)
    here = str(live.get("apiVersion", ""))
    ours = our_entry(live, manager)
    before = [e for e in found if is_before(e)]
    old = [e for e in found if e is not ours and (_is_declaring(e, tools_named) or _is_our_update(e, manager))]
    if ours is not None and not applied:
        old = [e for e in old if _version_of(e, here, served) == _version_of(ours, here, served)]
    version = _next_version(old or [e for e in (ours,) if e is not None], here, served)
    folded = [e for e in old if _version_of(e, here, served) == version]
    tree: Tree = {}
    for entry in folded:
        tree = _merged(tree, tree_of(entry) or {})
    for entry in before:
        if _version_of(entry, here, served) == version:
            tree = _merged(tree, _declared_part(tree_of(entry) or {}, live))
    tree = _without_unclaimed(tree, payload)
    if ours is not None and _version_of(ours, here, served) == version:
        tree = _merged(tree_of(ours) or {}, tree)
    rest = [
        {**e, "apiVersion": _version_of(e, here, served)}
        for e in found
        if e is not ours and e not in folded and e not in before
    ]
    operations = [*_unmark(live, payload, tools_named)]
    gone = any(_version_of(e, here, served) != e.get("apiVersion") for e in found)
    again = _entry(ours, tree, manager=manager, version=version, folded=[*folded, *before]) if tree else ours
    kept = [*rest, *([dict(again)] if again is not None else [])]
    if (folded or before or gone) and kept:
        operations.append({"op": "replace", "path": "/metadata/managedFields", "value": kept})
    if operations:
        operations.insert(0, _test(metadata))
    return operations


def forget_before(live: Mapping[str, Any]) -> Operations | None:
    """The JSON patch that removes the server's entry for fields from before the first apply; None when there is none.

    When somebody wiped managedFields, our next apply makes that entry, and it owns all of the object beside us: what
    Git removes later would stay live for ever (ssa-live 7). Only after a repair: of an object that was never ours, the
    entry says what there was.
    """
    for position, entry in enumerate(entries(live)):
        if is_before(entry):
            path = f"/metadata/managedFields/{position}"
            return [_test(live.get("metadata") or {}), {"op": "remove", "path": path}]
    return None


def old_entries(live: Mapping[str, Any], tools_named: Collection[Tool] = ()) -> tuple[Mapping[str, Any], ...]:
    """Entries of those who declared the object before us."""
    return tuple(e for e in entries(live) if is_before(e) or _is_declaring(e, tools_named))


def managers(found: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Names of the managers of these entries, sorted."""
    return tuple(sorted({one_line(str(e.get("manager", "")), 64) for e in found}))


def _test(metadata: Mapping[str, Any]) -> dict[str, Any]:
    return {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion", "")}


def is_before(entry: Mapping[str, Any]) -> bool:
    return entry.get("manager") == BEFORE_FIRST_APPLY and not entry.get("subresource")


def _is_declaring(entry: Mapping[str, Any], tools_named: Collection[Tool]) -> bool:
    name = str(entry.get("manager", ""))
    if entry.get("subresource"):
        return False
    return name in DECLARING_MANAGERS or any(tools.is_manager_of(name, tool) for tool in tools_named)


def _is_our_update(entry: Mapping[str, Any], manager: str) -> bool:
    """A patch under our name that was no apply: what it set would stay when Git drops it."""
    return entry.get("manager") == manager and entry.get("operation") == "Update" and not entry.get("subresource")


def _version_of(entry: Mapping[str, Any], here: str, served: Collection[str] | None) -> str:
    """The version at which the entry's names are read."""
    version = str(entry.get("apiVersion", ""))
    return version if served is None or version in served else here


def _next_version(old: Sequence[Mapping[str, Any]], here: str, served: Collection[str] | None) -> str:
    versions = {_version_of(e, here, served) for e in old}
    return here if here in versions or not versions else min(versions)


def _entry(
    ours: Mapping[str, Any] | None,
    tree: Tree,
    *,
    manager: str,
    version: str,
    folded: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    times = [str(e["time"]) for e in [*folded, ours or {}] if e.get("time")]
    found = {
        "manager": manager,
        "operation": "Apply",
        "apiVersion": version,
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }
    return {**found, "time": max(times)} if times else found


def _unmark(
    live: Mapping[str, Any], payload: Mapping[str, Any], tools_named: Collection[Tool]
) -> Iterator[dict[str, Any]]:
    """Takes the tools' marks off that Git does not declare itself."""
    declared = payload.get("metadata") or {}
    found = {mark for tool in sorted(tools_named) for mark in tools.marks(live, tool)}
    for place, key in sorted(found):
        if key not in (declared.get(place) or {}):
            yield {"op": "remove", "path": f"/metadata/{place}/{key.replace('~', '~0').replace('/', '~1')}"}


# -- trees -----------------------------------------------------------------------------------------------------------


def _merged(one: Tree, other: Tree) -> dict[str, Any]:
    """Union of two fieldsV1 trees. An empty node is a set of itself: united with a deeper one it needs its `.`."""
    merged = dict(one)
    for name, node in other.items():
        if name not in merged:
            merged[name] = node
            continue
        mine = merged[name]
        united = _merged(mine, node)
        if united and (not mine or not node) and name != ".":
            united["."] = {}
        merged[name] = united
    return merged


def _declared_part(tree: Tree, live: Mapping[str, Any]) -> Tree:
    """What of a tree `kubectl apply` declared, as its annotation tells; nothing when it tells nothing."""
    annotations = (live.get("metadata") or {}).get("annotations") or {}
    try:
        declared = _decode(annotations.get(LAST_APPLIED) or "")
    except (msgspec.DecodeError, TypeError):
        return {}
    part = _within(tree, declared)
    if descend(tree, LAST_APPLIED_PATH) is not None:
        part = _merged(part, {"f:metadata": {"f:annotations": {f"f:{LAST_APPLIED}": {}}}})
    return part


LAST_APPLIED_PATH: OwnedPath = tuple(
    e for name in ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}") if (e := parse_element(name)) is not None
)


def _within(tree: Tree, declared: Any) -> dict[str, Any]:
    """The part of a tree whose paths a declared value has."""
    found: dict[str, Any] = {}
    for name, node in tree.items():
        element = parse_element(name)
        if element is None:
            found[name] = node
            continue
        value = step(declared, element)
        below = _within(node, value) if value is not None else {}
        if value is not None and (below or not node):
            found[name] = below
    return found if found.keys() - {"."} else {}


def _without_unclaimed(tree: Tree, payload: Mapping[str, Any]) -> Tree:
    """The tree without finalizers, owner references, stamps and the replicas that Git leaves to others."""
    kept = dict(tree)
    metadata = kept.pop("f:metadata", None) or {}
    metadata = {k: v for k, v in metadata.items() if k not in ("f:finalizers", "f:ownerReferences")}
    return _without_deeds(kept | ({"f:metadata": metadata} if metadata else {}), payload)


def _without_deeds(node: Tree, declared: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, sub in node.items():
        element = parse_element(name)
        if name == "f:replicas" and not sub and isinstance(declared, dict) and "replicas" not in declared:
            continue
        if name == _STAMP:
            continue
        below = None if element is None else step(declared, element)
        kept = _without_deeds(sub, below) if below is not None else sub
        if kept or not sub:
            found[name] = kept
    return found
