"""Credentials that an overlay hides: in the base below a patch, or in a patch below a later one.

The merged object is judged and does not hold them any more, but Git does, for ever. What is in the merged object too is
told at the same place, and by chains.py only once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import WorkloadRef
from gitops.overlays.json_patches import JsonPatchSource
from gitops.plan.bases import BaseObject
from gitops.plan.patching import BoundPatch
from gitops.policy import codes
from gitops.policy.annotations import ALLOW_CREDENTIAL_LIKE
from gitops.policy.credentials import credentials_in


def hidden_credentials(
    base: Sequence[BaseObject], patches: Sequence[BoundPatch], workload: WorkloadRef
) -> Iterator[Finding]:
    """Credentials in objects that have a patch, and in the patches; none of an object that says it has none."""
    targets = dict.fromkeys(patch.target for patch in patches)
    for item in base:
        mine = [target for target in targets if target.matches(item.body)]
        if not mine or _allows(item.body):
            continue
        for path, what in credentials_in(item.body):
            yield _told(item, path, what, item.origin(*path), workload)
        for patch in patches:
            if patch.target in mine:
                for path, what, origin in _in_patch(patch):
                    yield _told(item, path, what, origin, workload)


def _in_patch(patch: BoundPatch) -> Iterator[tuple[Path, str, Origin]]:
    source = patch.source
    if isinstance(source, JsonPatchSource):
        for number, operation in enumerate(source.operations):
            for path, what in credentials_in(operation.plain.get("value")):
                yield (*operation.path, *path), what, source.provenance.origin_of((number, "value", *path))
    else:
        for path, what in credentials_in(source.patch):
            yield path, what, source.provenance.origin_of(path)


def _told(item: BaseObject, path: Path, what: str, origin: Origin, workload: WorkloadRef) -> Finding:
    message = f"{item.gvk.kind} {item.name}: {dotted(path)} looks like {what}"
    return finding(codes.CREDENTIAL, message, origin, object=item.ref, workload=workload, path=path)


def _allows(body: dict[str, Any]) -> bool:
    annotations = body["metadata"].get("annotations")
    return isinstance(annotations, dict) and annotations.get(ALLOW_CREDENTIAL_LIKE) == "true"
