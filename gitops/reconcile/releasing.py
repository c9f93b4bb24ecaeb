"""Letting a cluster go: its Cluster document left Git, so our marks go and the objects stay.

The labels and the annotation are removed by JSON patch, guarded by the uid that the parent recorded; an apply without
them would reset every field that we own alone (ssa-live 27). The field manager's entry stays: it is harmless history.
"""

from __future__ import annotations

import logging
from typing import Any

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.parents import ParentStore
from gitops.plan.parents import Member
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL, SOURCE_ANNOTATION
from gitops.reconcile.state import ClusterState

_log = logging.getLogger(__name__)


async def release(state: ClusterState, applier: Applier, parents: ParentStore) -> bool:
    """Unmark all members of all units and delete the parents whose members are all unmarked; True when none is left."""
    for record in list(state.parents.values()):
        own = applier.in_name_of(record.service_account)
        failed = [m for m in record.members if not await _unmark(m, own)]
        if failed:
            _log.error("%s: %d objects could not be released and keep our labels", record.unit, len(failed))
            continue
        error = await parents.delete(record)
        if error is None:
            state.parents.pop(record.unit, None)
            _log.info("%s: released, its objects stay", record.unit)
        else:
            _log.error("%s: the parent could not be deleted: %s", record.unit, error)
    return not state.parents


async def _unmark(member: Member, applier: Applier) -> bool:
    gvk = member.gvk
    live = await applier.get(gvk, member.ref)
    if live is None:
        return True
    if isinstance(live, ApiError):
        return live.cls is ErrorClass.GONE
    metadata = live.get("metadata") or {}
    if member.uid and metadata.get("uid") != member.uid:
        return True  # another object: nothing of ours
    operations = unmarking(metadata)
    if not operations:
        return True
    return not isinstance(await applier.json_patch(gvk, member.ref, operations, manager=applier.manager), ApiError)


def unmarking(metadata: dict[str, Any]) -> list[dict[str, Any]]:
    """The JSON patch (RFC 6902) that takes our marks off an object; empty when it has none."""
    marks = [
        (field, key)
        for field, keys in (("labels", (RECONCILER_LABEL, PART_OF_LABEL)), ("annotations", (SOURCE_ANNOTATION,)))
        for key in keys
        if key in (metadata.get(field) or {})
    ]
    if not marks:
        return []
    guard = {"op": "test", "path": "/metadata/resourceVersion", "value": metadata.get("resourceVersion")}
    return [guard, *({"op": "remove", "path": f"/metadata/{f}/{k.replace('/', '~1')}"} for f, k in marks)]
