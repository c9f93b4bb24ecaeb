"""Drift files from what the engine knows: a unit's file and the table over all of them.

What a unit's file told before the daemon started, or while another one wrote, is recalled once, at its first look: open
drift goes on with its first time, and what is as declared again meanwhile is over.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gitops.model.identity import ObjectRef, UnitKey
from gitops.reconcile.context import Context
from gitops.reconcile.state import ClusterState, UnitState
from gitops.report.drift_files import UnitDrift, read_drift, render_drift
from gitops.report.drift_history import bounded, recalled, undeclared
from gitops.report.drift_readme import render_drift_readme
from gitops.report.paths import DRIFT, drift_path, drift_readme_path

Put = Callable[[str, bytes | None], None]


class DriftReporter:
    """Keeps the drift files. `put` takes a path and its content, None to remove it."""

    def __init__(self, context: Context, put: Put) -> None:
        self._context = context
        self._put = put
        self._told: dict[str, UnitDrift] = {}  # path → what the file says
        self._unread: dict[str, bytes] = {}
        self._recalled: set[UnitKey] = set()
        self._changed = False

    def load(self, files: Mapping[str, bytes]) -> None:
        """What the branch holds now: files are read one by one (`unread`, `read`), as that takes a while."""
        own = f"{DRIFT}/"
        self._unread = {p: c for p, c in files.items() if p.startswith(own) and p != drift_readme_path()}
        self._told, self._recalled = {}, set()
        self._changed = bool(self._unread)

    @property
    def unread(self) -> list[str]:
        return sorted(self._unread)

    def read(self, path: str) -> None:
        content = self._unread.pop(path, None)
        drift = None if content is None else read_drift(content)
        if drift is not None and drift_path(drift.unit) == path:
            self._told[path] = drift

    def unit(self, key: UnitKey, state: ClusterState) -> None:
        """Bring a unit's file up to date; every file was read before."""
        path, unit = drift_path(key), state.units[key]
        told = self._told.get(path)
        if key not in self._recalled:
            self._recalled.add(key)
            if told is not None:
                self._recall(told, state, unit)
        now, declared = self._context.moment(), state.unit(key)
        if declared is not None:  # else it goes, or is held and nobody knows what it has
            names = declared.names
            unit.drifts = undeclared(unit.drifts, names, at=now)
            unit.additions = {ref: added for ref, added in unit.additions.items() if ref in names}
        unit.drifts, unit.drifts_left_out = bounded(unit.drifts, unit.drifts_left_out, at=now)
        drift = UnitDrift(key, tuple(unit.drifts), unit.drifts_left_out, dict(unit.additions))
        if not drift:
            self.remove(path)
        elif told is None or told.meaning != drift.meaning:
            self._told[path] = drift
            self._changed = True
            self._put(path, render_drift(drift))

    def _recall(self, told: UnitDrift, state: ClusterState, unit: UnitState) -> None:
        def settled(ref: ObjectRef) -> bool:
            found, record = state.declared(ref), state.objects.get(ref)
            return found is None or (record is not None and bool(record.uid) and record.applied == found[1].digest)

        unit.drifts = recalled(told.records, unit.drifts, settled=settled, at=self._context.moment())
        unit.drifts_left_out = max(unit.drifts_left_out, told.left_out)
        looked = {ref for ref in told.added if (r := state.objects.get(ref)) is not None and r.added is not None}
        unit.additions = {**{ref: a for ref, a in told.added.items() if ref not in looked}, **unit.additions}

    def remove(self, path: str) -> None:
        """Nothing is to be told there any more."""
        self._unread.pop(path, None)
        self._changed |= self._told.pop(path, None) is not None
        self._put(path, None)

    def summary(self) -> None:
        """Write the table when any file changed."""
        if self._changed:
            self._changed = False
            drifts = sorted(self._told.values(), key=lambda d: d.unit)
            self._put(*render_drift_readme(drifts))
