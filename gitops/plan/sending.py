"""What is sent of a desired object: Git's object without the leaves that are not ours at the moment.

Another manager may own a field by agreement (an autoscaler, a certificate injector), or a field is handed over while a
condition holds. Such a leaf is left out of the payload as if Git did not declare it: it is neither compared nor applied
nor reported as drift. Never a whole list item: the item would vanish
even where another manager owns parts of it (ssa-live 29).
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import Path
from gitops.plan.units import DesiredObject


class Why(enum.StrEnum):
    """Why a leaf is left out."""

    YIELDED = "yielded"  # the ownership table gives it to its other manager
    HANDED_OVER = "handed over"  # a handover of the operator type holds
    IGNORED = "ignored"  # the object's annotation says so
    ASKED = "asked"  # in conflict, and somebody has to decide
    CONTESTED = "contested"  # another writer keeps undoing our repair


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path in the desired object (list positions are those of the payload) that is not sent, and to whom it belongs:
    the name of a field manager or of a kind, "" when to nobody."""

    path: Path
    why: Why
    holder: str = ""


def in_order(left_out: Iterable[LeftOut]) -> tuple[LeftOut, ...]:
    """Sorted; of one path the first reason is kept."""
    by_path: dict[Path, LeftOut] = {}
    for each in left_out:
        by_path.setdefault(each.path, each)
    return tuple(sorted(by_path.values(), key=lambda each: rank(each.path)))


def rank(path: Path) -> tuple[tuple[bool, int | str], ...]:
    """Sorts paths: positions of lists before keys of maps, which Python does not compare."""
    return tuple((isinstance(part, str), part) for part in path)


def as_sent(desired: DesiredObject, left_out: Iterable[LeftOut]) -> DesiredObject:
    """The object without these leaves; its digest is that of what is left. Paths that it does not have are ignored."""
    body = desired.body
    gone = [each.path for each in left_out if without(body, each.path)]
    if not gone:
        return desired
    return replace(desired, payload=(payload := canonical_json(body)), digest=digest(payload))


def without(body: Any, path: Path) -> bool:
    """Take one key out of the map that holds it; a map that is empty then goes too, an item of a list stays."""
    holders: list[tuple[dict[str, Any], str] | None] = []  # None: a list
    for part in path:
        if isinstance(body, dict) and isinstance(part, str) and part in body:
            holders.append((body, part))
            body = body[part]
        elif isinstance(body, list) and isinstance(part, int) and part < len(body):
            holders.append(None)
            body = body[part]
        else:
            return False
    if not holders or holders[-1] is None:
        return False
    for place in reversed(holders):
        if place is None:
            break
        holder, key = place
        del holder[key]
        if holder:
            break
    return True
