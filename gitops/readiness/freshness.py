"""Is this status about the present spec?

Three kinds of proof, best first: status.observedGeneration; the observedGeneration of conditions; for operators that
write neither (NIM), the time of the `status` entry in managedFields. Those times have a resolution of one second, so an
equal second proves nothing by itself: then the status must differ from what it was when the generation moved, or the
settle time must have passed. Condition times are no proof: they only move with the condition's value.
"""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from gitops.readiness.statuses import ObjectMemory


class Freshness(enum.Enum):
    FRESH = "fresh"
    ASSUMED = "assumed"  # nothing proves it, but the operator had its settle time
    STALE = "stale"


def parse_time(text: object) -> float | None:
    """RFC 3339 → seconds since the epoch; None for anything else."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


NO_STATUS = ("", hashlib.blake2b(b"null", digest_size=16).digest())
"""The mark of an object without a status."""


def status_mark(obj: Mapping[str, Any]) -> tuple[str, bytes]:
    """(time of the newest `status` entry in managedFields, 16-byte digest of the status)."""
    times = [str(e.get("time", "")) for e in _entries(obj) if e.get("subresource") == "status"]
    status = obj.get("status")
    if status is None and not times:
        return NO_STATUS  # shared: most kinds have none
    encoded = msgspec.json.encode(status, order="deterministic")
    return max(times, default=""), hashlib.blake2b(encoded, digest_size=16).digest()


def spec_time(obj: Mapping[str, Any]) -> float | None:
    """When a spec was last written, as managedFields tell it (a label-only write of the same manager moves it too)."""
    times = (
        parse_time(entry.get("time"))
        for entry in _entries(obj)
        if not entry.get("subresource") and any(key not in ("f:metadata", "f:status") for key in entry["fieldsV1"])
    )
    return max((t for t in times if t is not None), default=None)


def observed_generation(obj: Mapping[str, Any]) -> int | None:
    status = obj.get("status")
    value = status.get("observedGeneration") if isinstance(status, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def by_managed_fields(
    obj: Mapping[str, Any], memory: ObjectMemory, *, now: float, settle: float
) -> tuple[Freshness, float | None]:
    """Verdict without observedGeneration, and when to look again (None when it cannot change by time alone)."""
    written, spec_written = None, spec_time(obj)
    mark = status_mark(obj)
    if mark[0]:
        written = parse_time(mark[0])
    if written is not None and spec_written is not None:
        if written > spec_written:
            return Freshness.FRESH, None
        if written == spec_written and mark != memory.mark:
            return Freshness.FRESH, None
    elif obj.get("status") and mark != memory.mark:
        return Freshness.FRESH, None  # managedFields were cut off: a status that moved is all there is
    # An object met as it is: the server's own times say how long ago its spec changed.
    start = memory.generation_at
    if memory.inherited and spec_written is not None:
        start = min(start, spec_written)
    if now - start >= settle:
        return Freshness.ASSUMED, None
    return Freshness.STALE, start + settle


def _entries(obj: Mapping[str, Any]) -> list[dict[str, Any]]:
    metadata = obj.get("metadata")
    entries = metadata.get("managedFields") if isinstance(metadata, Mapping) else None
    if not isinstance(entries, list):
        return []
    return [e for e in entries if isinstance(e, dict) and isinstance(e.get("fieldsV1"), dict)]
