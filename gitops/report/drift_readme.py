"""drift/README.md: the table that people read on the forge. Deterministic, bounded, what is open first, no ages.

Values are not in it, only who changed how much where; each unit's file has the rest. Names of managers are chosen by
whoever writes to a cluster, so they are made inert.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gitops.model.identity import UnitKey
from gitops.report.drift import DriftRecord
from gitops.report.drift_files import UnitDrift, worst_first
from gitops.report.drift_history import HISTORY
from gitops.report.markdown import inert
from gitops.report.paths import DRIFT, drift_path, drift_readme_path

ROW_LIMIT = 200


@dataclass(frozen=True, slots=True)
class Group:
    """What one manager did on one cluster: drifts that are open, times that anything drifted, units, last time."""

    cluster: str
    manager: str
    open: int
    times: int
    units: int
    last: str


def groups(drifts: Iterable[UnitDrift]) -> list[Group]:
    """By cluster and manager, what is open first."""
    found: dict[tuple[str, str], list[DriftRecord]] = {}
    for drift in drifts:
        for record in drift.records:
            found.setdefault((record.unit.cluster, who(record)), []).append(record)
    rows = [
        Group(
            cluster,
            manager,
            sum(r.is_open for r in records),
            sum(r.count for r in records),
            len({r.unit for r in records}),
            max(r.detected_at for r in records).strftime("%Y-%m-%d"),
        )
        for (cluster, manager), records in found.items()
    ]
    return sorted(rows, key=lambda g: (-g.open, -g.times, g.cluster, g.manager))


def who(record: DriftRecord) -> str:
    """The manager, for grouping; whoever writes under our name and admission have none of their own."""
    return "(admission, or under our name)" if record.still_ours else record.manager or "unknown"


def render_drift_readme(drifts: Sequence[UnitDrift]) -> tuple[str, bytes | None]:
    """(path, content); no content when there is nothing to tell."""
    if not drifts:
        return drift_readme_path(), None
    opened = sum(d.open_count for d in drifts)
    added = sum(len(a.rows) + a.more for d in drifts for a in d.added.values())
    lines = [
        "# Drift",
        "",
        f"{opened} open. Below is also what was repaired or ended by itself in the last {HISTORY.days} days; "
        "older drift is in the history of these files.",
        "",
    ]
    lines += _managers(groups(drifts))
    lines += _units(worst_first(drifts))
    if added:
        lines += [f"{added} unmanaged additions: fields that nobody in Git declares. They are left alone.", ""]
    return drift_readme_path(), ("\n".join(lines).rstrip() + "\n").encode()


def _managers(rows: Sequence[Group]) -> list[str]:
    if not rows:
        return []
    lines = ["## By whom", "", "| Cluster | Manager | Open | Times | Units | Last |", "|---|---|---|---|---|---|"]
    for row in rows[:ROW_LIMIT]:
        lines.append(
            f"| {inert(row.cluster)} | {inert(row.manager)} | {row.open} | {row.times} | {row.units} | {row.last} |"
        )
    return [*lines, *_more(len(rows)), ""]


def _units(drifts: Sequence[UnitDrift]) -> list[str]:
    lines = ["## By unit", "", "| Unit | Open | Over | Additions |", "|---|---|---|---|"]
    for drift in drifts[:ROW_LIMIT]:
        added = sum(len(a.rows) + a.more for a in drift.added.values())
        over = len(drift.over) + drift.left_out
        lines.append(f"| [{inert(str(drift.unit))}]({_link(drift.unit)}) | {drift.open_count} | {over} | {added} |")
    return [*lines, *_more(len(drifts)), ""]


def _link(key: UnitKey) -> str:
    return drift_path(key).removeprefix(f"{DRIFT}/")


def _more(count: int) -> list[str]:
    return ["", f"… and {count - ROW_LIMIT} more."] if count > ROW_LIMIT else []
