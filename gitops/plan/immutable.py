"""Which fields of a live object stand in the way of an update, as far as the refusal tells. Pure.

The API server refuses a change of an immutable field with the same 422 as a typo, and the texts are free (ssa-live 25):
causes have reason FieldValueInvalid ("field is immutable") or FieldValueForbidden. A refusal is taken for one only when
each cause names a field that would change; the proof is then that the same object under another name would be made.
Treating every 422 as immutable, as kubectl's `--force` does, would delete objects for a typo.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import Path, dotted
from gitops.model.kinds import DEFINITION, NAMESPACE
from gitops.plan.units import DesiredObject
from gitops.policy.annotations import ALLOW_DELETE, RECREATE

REASONS = frozenset({"FieldValueInvalid", "FieldValueForbidden"})
"""What causes of such a refusal are called (metav1.CauseType)."""

MOST_NAMED = 5

NEVER = frozenset({NAMESPACE.group_kind, DEFINITION.group_kind})
"""Everything in them would go too."""

STATEFUL_SET = ("apps", "StatefulSet")


def fields_in_the_way(causes: Sequence[tuple[str, str]], changed: Iterable[Path]) -> tuple[str, ...]:
    """Of (reason, field) of each cause and the paths that would change: which of those the refusal is about, or () when
    a cause is about something else. A field may be a parent of what changes (`spec.template`) or below it."""
    paths = sorted({dotted(path) for path in changed})
    found: set[str] = set()
    for reason, field in causes:
        about = [path for path in paths if _covers(field, path) or _covers(path, field)]
        if reason not in REASONS or not about:
            return ()
        found.update(about)
    return tuple(sorted(found))


def _covers(field: str, path: str) -> bool:
    return bool(field) and (path == field or path.startswith((f"{field}.", f"{field}[")))


def under_another_name(desired: DesiredObject) -> DesiredObject:
    """The object as one that certainly does not exist, for the dry run that proves that it could be made."""
    body, name = desired.body, desired.ref.name
    other = f"{name[:40].rstrip('-.')}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
    body["metadata"]["name"] = other
    payload = canonical_json(body)
    return replace(desired, ref=replace(desired.ref, name=other), payload=payload, digest=digest(payload))


def sentence(desired: DesiredObject, fields: Sequence[str], *, holds: str = "", why_not: str = "") -> str:
    """What a person has to do, for an object of which `fields` cannot change. `holds`: what would be lost with it;
    `why_not`: why it is not made again although its author allows it."""
    more = f" (and {len(fields) - MOST_NAMED} more)" if len(fields) > MOST_NAMED else ""
    what = f"{', '.join(fields[:MOST_NAMED])}{more} cannot change while the object lives: it has to be made anew"
    if desired.handling.once:
        why_not = "it does its work each time it is made: give it a new name"
    if why_not:
        return f"{what}; {why_not}"
    kind = desired.ref.group_kind
    if kind in NEVER:
        return f"{what}, which is never done by itself: all that it holds would go with it"
    consent = f'{RECREATE}: "true"' + (f' and {ALLOW_DELETE}: "true"' if holds else "")
    if (kind.group, kind.kind) == STATEFUL_SET:
        orphan = "delete it with `kubectl delete --cascade=orphan`, which leaves its pods and claims"
        return f"{what}; {orphan}, or annotate it with {consent} to have that done; existing claims keep their size"
    return f"{what}; delete it, or annotate it with {consent} to have that done"


def recreates(desired: DesiredObject, *, holds: str) -> bool:
    """Does its declaration allow that it is deleted to be made anew, and with it what it holds?"""
    kind = desired.ref.group_kind
    if not desired.handling.recreate or desired.handling.once or kind in NEVER:
        return False
    annotations: dict[str, str] = desired.body["metadata"].get("annotations", {})
    return not holds or annotations.get(ALLOW_DELETE) == "true"
