"""What overlays did that their authors may not expect, as findings of level info for previews."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gitops.manifests.lines import dotted
from gitops.model.catalogue import finding
from gitops.model.findings import Finding
from gitops.model.identity import ObjectRef, WorkloadRef
from gitops.overlays import codes
from gitops.overlays.overriding import Override

_LISTED = 10


def override_findings(
    overridden: Iterable[Override], *, object: ObjectRef | None = None, workload: WorkloadRef | None = None
) -> Iterator[Finding]:
    """List items and keys that disappear, values whose type changes, overlays that override each other."""
    for override in overridden:
        where = dotted(override.path)
        problems = []
        if names := override.vanished:
            more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
            gone = ", ".join(names[:_LISTED]) + more
            is_list = isinstance(override.before, list)
            code = codes.ITEMS_GONE if is_list else codes.KEYS_GONE
            problems.append((code, f"the {'list' if is_list else 'map'} {where} is replaced and loses {gone}"))
        if override.type_changed:
            problems.append((codes.TYPE_CHANGED, f"the type of {where} changes"))
        if override.over_overlay:
            problems.append((codes.OVERLAY_OVER_OVERLAY, f"{where} is set by two overlays"))
        for code, message in problems:
            message = f"{message} (before: {override.before_origin})"
            yield finding(code, message, override.after_origin, object=object, workload=workload, path=override.path)
