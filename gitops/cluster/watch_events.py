"""What a reflector tells its reader (gitops/cluster/reflecting.py)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gitops.cluster.errors import ApiError
from gitops.model.identity import ObjectRef

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Changed:
    """The object exists and is so; it may be one that was delivered before. apiVersion and kind are always set."""

    obj: JsonObject


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object left the watch: deleted, or its labels no longer match (it then carries its old labels)."""

    obj: JsonObject


@dataclass(frozen=True, slots=True)
class Vanished:
    """A known object is not in a complete list any more; nobody saw it go."""

    ref: ObjectRef
    uid: str


@dataclass(frozen=True, slots=True)
class Synced:
    """A list is complete: everything that exists was delivered as Changed before this. `objects` counts them."""

    objects: int
    resource_version: str


@dataclass(frozen=True, slots=True)
class Stale:
    """The kind cannot be listed or watched: what was delivered is as of `since` (Unix seconds; 0.0 = never heard).

    Sent once for an outage and again when the error becomes another one. NotServed (ApiError.reason) and FORBIDDEN are
    no absence either.
    """

    since: float
    error: ApiError


@dataclass(frozen=True, slots=True)
class Fresh:
    """The end of Stale."""


Event = Changed | Deleted | Vanished | Synced | Stale | Fresh
