"""The break-glass pause: a time on a unit's parent until which drift is told and not repaired.

Whoever writes it works by hand and in a hurry: a value that means nothing is told, and pauses nothing.
"""

from __future__ import annotations

import datetime

from gitops.cluster.parents import PAUSE_ANNOTATION
from gitops.readiness.texts import one_line

SHOWN = 64
"""Characters of a wrong value that are shown."""


def seconds_left(text: str, *, now: float) -> float:
    """Seconds for which a pause still suspends repairs; 0 when it does not. `now`: epoch seconds."""
    until = _time(text)
    return max(0.0, until.timestamp() - now) if until is not None else 0.0


def problems(text: str) -> list[str]:
    """What is wrong with a pause, in a sentence."""
    if not text or _time(text) is not None:
        return []
    shown = one_line(text, SHOWN)
    return [f"{PAUSE_ANNOTATION} on the parent is {shown!r}, no RFC 3339 time with a zone: it pauses nothing"]


def _time(text: str) -> datetime.datetime | None:
    try:
        found = datetime.datetime.fromisoformat(text)
        found.timestamp()
    except (ValueError, OverflowError):
        return None
    return found if found.tzinfo is not None else None
