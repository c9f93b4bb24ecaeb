"""What becomes of fights on one cluster: which paths are left to the other side for now, and what people are told.

A contested key of a map is left out of what is sent (gitops/plan/sending.py), as if Git did not declare it, so that
neither a repair of another path nor a commit writes it. What cannot be left out (an item of a list, an order, a whole
object) is not repaired for its own sake, and goes along when something else of the object is written.
"""

from __future__ import annotations

import datetime
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from gitops.cluster.fields import compare
from gitops.cluster.values import ABSENT
from gitops.manifests.canonical import canonical_json
from gitops.manifests.lines import Path
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan.planning import Apply, Reason
from gitops.plan.sending import LeftOut, Why
from gitops.plan.units import DesiredObject, Unit
from gitops.reconcile.context import Context
from gitops.reconcile.fights import WHOLE, Fight, may_be_left_out
from gitops.reconcile.outcomes import ObjectProblem, SyncState
from gitops.reconcile.state import ClusterState, ObjectRecord
from gitops.report.drift import DriftKind, DriftRecord, drift_records, rfc3339, shown

_log = logging.getLogger(__name__)


class Contesting:
    def __init__(self, state: ClusterState, context: Context) -> None:
        self._state = state
        self._context = context

    def contested(self, ref: ObjectRef) -> dict[Path, Fight]:
        """The paths of an object that are given up at the moment; none of nearly every object."""
        if not self._state.fights.of(ref):
            return {}
        return self._state.fights.contested(ref, now=self._context.wall(), limits=self._context.options.fights)

    def left_out(self, ref: ObjectRef) -> tuple[LeftOut, ...]:
        """Contested paths that are not sent."""
        found = self.contested(ref)
        whole = self._state.in_git(ref) if found else None
        if whole is None:
            return ()  # what is made here beside Git's objects is sent whole, or not at all
        body = whole.body
        return tuple(
            LeftOut(path, Why.CONTESTED, fight.theirs.manager if fight.theirs is not None else "")
            for path, fight in found.items()
            if may_be_left_out(path, body)
        )

    def undone(self, key: UnitKey, desired: DesiredObject, theirs: Mapping[Path, DriftRecord | None]) -> list[Path]:
        """Others changed these paths; returns those that are given up by it."""
        if not self._state.fights.of(desired.ref):
            return []
        now, limits = self._context.wall(), self._context.options.fights
        given_up = self._state.fights.undone(desired.ref, theirs, now=now, limits=limits)
        if given_up:
            sentence = self._sentence(desired, given_up[0], self._state.fights.of(desired.ref)[given_up[0]])
            _log.warning("contested: %s", f"{desired.ref}: {sentence}", extra={"unit": str(key)})
        return given_up

    def repaired(self, desired: DesiredObject, paths: Iterable[Path]) -> None:
        """These paths were written because others had changed them."""
        whole = self._state.in_git(desired.ref) or desired
        self._state.fights.repaired(whole, paths, now=self._context.wall(), limits=self._context.options.fights)

    def differing(self, ref: ObjectRef) -> set[Path]:
        """Contested paths of an object that are not as declared."""
        return {path for path, fight in self.contested(ref).items() if fight.theirs is not None}

    def look(
        self, key: UnitKey, desired: DesiredObject, live: Mapping[str, Any]
    ) -> dict[Path, DriftRecord | None] | None:
        """What became of contested paths that are left out, of those that changed: None for one that is as declared
        now. None for all when nothing changed."""
        left = [each.path for each in self.left_out(desired.ref)]
        whole = self._state.in_git(desired.ref) if left else None
        if whole is None:
            return None
        comparison = compare(whole.body, live, self._state.manager)
        found = drift_records(key, whole, comparison, detected_at=self._context.moment())
        changed: dict[Path, DriftRecord | None] = {}
        for path in left:
            before = self._state.fights.of(desired.ref)[path].theirs
            now = next((r for r in found if _touch(r.field, path)), None)
            if _seen(before) != _seen(now):
                changed[path] = now
                self._state.fights.seen(desired.ref, path, now)
        return changed or None

    def held_back(self, step: Apply) -> bool:
        """Whether the step would only go on with a fight that was given up."""
        record = self._state.objects.get(step.object.ref)
        contested = self.contested(step.object.ref)
        if not contested or (step.uid and step.reason is not Reason.DRIFT):
            return False
        drifting = record.drifting if record is not None else ()
        return WHOLE in contested or (bool(step.uid and drifting) and all(path in contested for path in drifting))

    def told(self, unit: Unit) -> list[ObjectProblem]:
        """What people are to know: who writes what, and until when we look on."""
        found = []
        for desired in unit.objects:
            for path, fight in self.contested(desired.ref).items():
                if fight.theirs is None and self._is_there(desired.ref):
                    continue  # it is as declared, whoever owns it
                sentence = self._sentence(desired, path, fight)
                found.append(ObjectProblem(desired.ref, SyncState.CONTESTED, sentence))
        return found

    def next_try(self, unit: Unit) -> float | None:
        """Seconds until something contested of a unit is tried again."""
        now, limits = self._context.wall(), self._context.options.fights
        pauses = (f.contested_for(now, limits) for o in unit.objects for f in self.contested(o.ref).values())
        return min(pauses, default=None)

    def stored(self, unit: Unit) -> tuple[tuple[str, str], ...]:
        """What the unit's parent is to remember."""
        refs = [o.ref for o in unit.objects]
        return self._state.fights.stored(refs, now=self._context.wall(), limits=self._context.options.fights)

    def restore(self) -> None:
        """Parents were read: take what they remember."""
        for record in self._state.parents.values():
            if record.contested:
                refs = {m.ref for m in record.members}
                now, limits = self._context.wall(), self._context.options.fights
                self._state.fights.restore(refs, record.contested, now=now, limits=limits)

    def _is_there(self, ref: ObjectRef) -> bool:
        record = self._state.objects.get(ref)
        return record is not None and bool(record.uid)

    def _sentence(self, desired: DesiredObject, path: Path, fight: Fight) -> str:
        until = rfc3339(datetime.datetime.fromtimestamp(fight.until, datetime.UTC))
        return f"{_what(desired, path, fight.theirs)}; contested until {until}"


def fought_over(record: ObjectRecord, drifts: Iterable[DriftRecord]) -> dict[Path, DriftRecord | None]:
    """The paths that drifted, each with what was made of it (None: only its ownership moved)."""
    by_path = {d.field: d for d in drifts}
    first = next(iter(by_path.values()), None)
    return {path: by_path.get(path, first if path == WHOLE else None) for path in record.drifting}


def _what(desired: DesiredObject, path: Path, theirs: DriftRecord | None) -> str:
    declared_at = f"declared at {desired.origin}"
    if theirs is None:
        return f"somebody undoes again and again what we write of it ({declared_at})"
    if theirs.kind is DriftKind.DELETED:
        return f"somebody deletes it again and again ({declared_at})"
    ours = f"{theirs.path}: ours {_text(theirs.declared)} ({theirs.declared_at})"
    if theirs.kind is DriftKind.RELABELLED:
        return f"{theirs.by} takes our label away again and again ({declared_at})"
    writes = "removes it" if theirs.live is ABSENT else f"writes {_text(theirs.live)}"
    return f"{ours}, {theirs.by} {writes}"


def _text(value: Any) -> str:
    return canonical_json(shown(value)).decode()


def _touch(a: Path, b: Path) -> bool:
    """Whether one path is the other or below it."""
    shorter = min(len(a), len(b))
    return a[:shorter] == b[:shorter]


def _seen(record: DriftRecord | None) -> tuple[Any, ...] | None:
    return None if record is None else (record.field, record.live, record.manager, record.subresource)
