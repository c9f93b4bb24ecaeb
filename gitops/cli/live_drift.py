"""Drift as the clusters show it right now, for who has no daemon: the live side of `gitops plan`, read as drift.

A plan says what an apply would change, whatever the reason; drift is what others did. The two are told apart by what
the cluster knows: a unit's parent says which content was applied, managedFields whose a value is. What we still own and
Git has otherwise is a change of Git that is not applied yet, and so is all of a unit without a parent.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gitops.cli.drift_view import DriftView, Filter, narrowed
from gitops.cli.live import Change, LivePlan, ObjectChange, compare_with_clusters
from gitops.cluster.comparison import Comparison
from gitops.model.identity import ObjectRef, UnitKey
from gitops.plan.compiling import Compiler
from gitops.plan.units import DesiredObject
from gitops.reconcile.connecting import FolderConnector
from gitops.report.drift import DriftKind, DriftRecord, Repair, drift_records, object_record
from gitops.report.drift_files import UnitDrift
from gitops.settings import SettingsError

if TYPE_CHECKING:
    from gitops.settings import Settings


def live_view(folder: Path, settings: Settings, chosen: Filter) -> DriftView:
    """Ask the clusters. Raises SettingsError, OSError."""
    from gitops.cli.folders import schemas_of
    from gitops.source.folders import FolderTree

    registry, known = settings.operator_registry(), schemas_of(folder, None)
    plan = asyncio.run(
        compare_with_clusters(
            FolderTree(folder),
            Compiler(registry, known),
            FolderConnector(settings.credentials_dir),
            registry,
            settings.ownership(),
            only=chosen.clusters,
            fuse=settings.fuse.limits(),
            known=known,
        )
    )
    if plan.compilation.repository is None:
        raise SettingsError(f"{folder}: gitops.yaml cannot be read")
    view = drift_of(plan, at=datetime.datetime.now(datetime.UTC))
    if not chosen.names([*plan.compilation.units, *plan.parents], (w.name for w in plan.compilation.held)):
        view = replace(view, nothing=f"Neither the folder nor a cluster that answers has {chosen}.")
    return narrowed(view, chosen)


def drift_of(plan: LivePlan, *, at: datetime.datetime) -> DriftView:
    """What of a plan is drift."""
    drifts, unknown = [], {str(name): why for name, why in plan.unreachable.items()}
    for key, changes in sorted(plan.changes.items()):
        records = tuple(record for change in changes for record in _records(plan, key, change, at))
        added = {change.ref: change.added for change in changes if change.added.rows}
        drifts.append(UnitDrift(key, records, added=added))
        for change in changes:
            if change.change is Change.UNKNOWN:
                unknown.setdefault(key.cluster, f"{change.ref}: {change.problem}")
    return DriftView(tuple(drift for drift in drifts if drift), unknown)


def _records(plan: LivePlan, key: UnitKey, change: ObjectChange, at: datetime.datetime) -> Iterator[DriftRecord]:
    unit, parent = plan.compilation.units.get(key), plan.parents.get(key)
    desired = _desired(plan, key, change.ref)
    if unit is None or parent is None or desired is None or not parent.uid_of(change.ref):
        return  # never applied
    applied = parent.content_key == unit.content_key
    found: tuple[DriftRecord, ...] = ()
    if change.change is Change.CREATE:
        found = (object_record(key, desired, DriftKind.DELETED, detected_at=at),)
    elif change.change is Change.UPDATE:
        differences = tuple(d for d in change.differences if applied or d.manager)
        found = drift_records(key, desired, Comparison(differences=differences), detected_at=at)
    yield from (record.with_repair(Repair.REPORTED) for record in found)


def _desired(plan: LivePlan, key: UnitKey, ref: ObjectRef) -> DesiredObject | None:
    unit = plan.compilation.units.get(key)
    return None if unit is None else next((o for o in unit.objects if o.ref == ref), None)
