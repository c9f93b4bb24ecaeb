"""Reading a member of a unit, also when its kind moved to another version or is gone.

That something does not exist any more is said only when it is certain. A kind that nobody serves is gone only when no
definition and no API service stands for it: discovery lags behind definitions, and behind a server that is down objects
live on (cases.md R08, I1).
"""

from __future__ import annotations

from typing import Any

from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import Objects
from gitops.model.identity import GroupVersionKind
from gitops.model.kinds import API_SERVICE, DEFINITION
from gitops.plan.parents import Member

Live = dict[str, Any] | ApiError | None


async def read_member(
    objects: Objects, member: Member, *, definitions: Objects | None = None
) -> tuple[Live, GroupVersionKind]:
    """The live member, at whatever version its kind is served now, and that version; None when it is certainly gone.
    `definitions` reads what stands for kinds, where `objects` has the rights of somebody else."""
    gvk = member.gvk
    live = await objects.get(gvk, member.ref)
    if not (isinstance(live, ApiError) and live.cls is ErrorClass.WAITING and live.waits_for.startswith("kind")):
        return live, gvk
    known = objects.discovery.known()
    served = sorted(g for g in known if g.group_kind == gvk.group_kind)
    if served:
        return await objects.get(served[0], member.ref), served[0]
    if not known:
        return live, gvk
    stands = await _stands(definitions or objects, gvk)
    return (live if stands is True else None if stands is False else stands), gvk


async def _stands(objects: Objects, gvk: GroupVersionKind) -> bool | ApiError:
    """Is there anything that stands for the kind, though nobody serves it?"""
    definitions = await objects.list_objects(DEFINITION, page_size=50)
    if isinstance(definitions, ApiError):
        return definitions
    specs = (d.get("spec") or {} for d in definitions.items)
    if any(s.get("group") == gvk.group and (s.get("names") or {}).get("kind") == gvk.kind for s in specs):
        return True
    services = await objects.list_objects(API_SERVICE)
    if isinstance(services, ApiError):
        return services
    # Those of the group's own definitions are made and removed with them, a moment later.
    return any(
        (s.get("spec") or {}).get("group") == gvk.group and (s.get("spec") or {}).get("service") for s in services.items
    )
