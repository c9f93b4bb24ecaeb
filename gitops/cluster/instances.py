"""The objects of a kind that a CustomResourceDefinition defines: the question before the definition may go, because the
API server deletes them all with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import Objects
from gitops.model.identity import GroupVersionKind, ObjectRef
from gitops.plan.references import defined_kind


@dataclass(frozen=True, slots=True)
class Instances:
    """`live` and `going` (being deleted), sorted."""

    live: tuple[ObjectRef, ...] = ()
    going: tuple[ObjectRef, ...] = ()


async def instances(objects: Objects, definition: Mapping[str, Any]) -> Instances | ApiError:
    """Every object of the kind, in all namespaces; ApiError when that cannot be told."""
    kind = defined_kind(definition)
    spec, status = definition.get("spec") or {}, definition.get("status") or {}
    if kind is None or not _ever_served(status):
        return Instances()
    served = [v["name"] for v in spec.get("versions") or () if v.get("served")]
    if not served:
        message = f"the objects of {kind} cannot be listed: no version of it is served"
        return ApiError(ErrorClass.BLOCKED, reason="NotServed", message=message)
    listing = await objects.list_metadata(GroupVersionKind(kind.group, served[0], kind.kind))
    if isinstance(listing, ApiError):
        return listing
    live: list[ObjectRef] = []
    going: list[ObjectRef] = []
    for item in listing.items:
        metadata = item.get("metadata") or {}
        ref = ObjectRef(kind.group, kind.kind, metadata.get("namespace", ""), metadata.get("name", ""))
        (going if metadata.get("deletionTimestamp") else live).append(ref)
    return Instances(tuple(sorted(live)), tuple(sorted(going)))


def _ever_served(status: Mapping[str, Any]) -> bool:
    """A definition whose names another one has was never served, so nothing of it can be stored."""
    conditions = {c.get("type"): c.get("status") for c in status.get("conditions") or ()}
    return conditions.get("Established") == "True" or conditions.get("NamesAccepted") != "False"
