"""`gitops drift --watch`: a line for each news of the daemon's reports, whatever becomes of the way to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from gitops.cli.drift_view import DriftView
from gitops.report.drift import DriftRecord
from gitops.source.errors import SourceError

LONGEST_PAUSE = 300.0


def follow(
    look: Callable[[], DriftView],
    *,
    say: Callable[[DriftRecord], None],
    tell: Callable[[str], None],
    pause: Callable[[float], None],
    interval: float,
) -> NoReturn:
    """First what is open, then what changes. Looks that fail are told, and tried again after longer and longer pauses.
    Ends by what `pause` or `look` raise: KeyboardInterrupt, or a mistake in the settings."""
    before: dict[object, DriftRecord] | None = None
    failures = 0
    while True:
        try:
            view = look()
        except (SourceError, OSError) as error:
            failures += 1
            seconds = min(LONGEST_PAUSE, interval * 2.0 ** min(failures - 1, 16))
            tell(f"{error}; looking again in {seconds:.0f} s")
            pause(seconds)
            continue
        if failures:
            failures = 0
            tell("the reports can be read again")
        for record in news(before, view):
            say(record)
        before = {(r.unit, r.key): r for r in view.records}
        pause(interval)


def news(before: dict[object, DriftRecord] | None, view: DriftView) -> list[DriftRecord]:
    """What is to be said of a view, the oldest first: all that is open at first, then what is another than before."""
    ordered = sorted(view.records, key=lambda r: r.ended_at or r.detected_at)
    if before is None:
        return [r for r in ordered if r.is_open]
    return [r for r in ordered if before.get((r.unit, r.key)) != r]
