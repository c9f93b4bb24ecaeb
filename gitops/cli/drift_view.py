"""What `gitops drift` shows: drift of units, filtered, and grouped by who did it. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from gitops.cluster.additions import Addition
from gitops.model.identity import ObjectRef, UnitKey
from gitops.report.drift import DriftRecord
from gitops.report.drift_files import UnitDrift, read_drift
from gitops.report.drift_readme import who
from gitops.report.paths import DRIFT, ROOT

CLUSTERS = f"{ROOT}/clusters"
FOLDERS = (DRIFT, ROOT)
"""What is read of the status branch."""

By = Literal["manager", "cluster", "workload", "file"]


@dataclass(frozen=True, slots=True)
class Filter:
    """Patterns as of a shell; no cluster is every cluster."""

    workload: str = "*"
    unit: str = "*"
    clusters: frozenset[str] = frozenset()
    only_open: bool = False

    def takes(self, key: UnitKey) -> bool:
        wanted = not self.clusters or key.cluster in self.clusters
        return wanted and fnmatch.fnmatchcase(key.name, self.workload) and fnmatch.fnmatchcase(str(key), self.unit)

    def names(self, keys: Iterable[UnitKey], workloads: Iterable[str]) -> bool:
        """Whether any of these is meant, wherever it is: what is misspelled is not what has no drift."""
        everywhere = replace(self, clusters=frozenset())
        if any(everywhere.takes(key) for key in keys):
            return True
        return self.unit == "*" and any(fnmatch.fnmatchcase(name, self.workload) for name in workloads)

    def __str__(self) -> str:
        clusters = [f"cluster {name}" for name in sorted(self.clusters)]
        patterns = [
            f"{what} {text}" for what, text in (("workload", self.workload), ("unit", self.unit)) if text != "*"
        ]
        return ", ".join(patterns + clusters)


@dataclass(frozen=True, slots=True)
class DriftView:
    """`unreachable`: cluster → why what is shown of it is not known to hold. `nothing`: a sentence when nobody told
    anything of what is asked for, else empty."""

    drifts: tuple[UnitDrift, ...] = ()
    unreachable: Mapping[str, str] = field(default_factory=dict)
    nothing: str = ""

    @property
    def records(self) -> list[DriftRecord]:
        """Open ones first, each the newest first."""
        every = [r for drift in self.drifts for r in drift.records]
        newest = sorted(every, key=lambda r: (r.sort_key, r.kind, r.manager))
        newest.sort(key=lambda r: r.detected_at, reverse=True)
        return sorted(newest, key=lambda r: not r.is_open)

    @property
    def additions(self) -> list[tuple[UnitKey, ObjectRef, Addition]]:
        return [(d.unit, ref, row) for d in self.drifts for ref, a in sorted(d.added.items()) for row in a.rows]

    @property
    def open_count(self) -> int:
        return sum(drift.open_count for drift in self.drifts)

    @property
    def left_out(self) -> int:
        """Records and additions that files do not hold."""
        added = sum(a.more for drift in self.drifts for a in drift.added.values())
        return added + sum(drift.open_left_out + drift.left_out for drift in self.drifts)


def view_of(files: Mapping[str, bytes], chosen: Filter) -> DriftView:
    """From the files of the status branch below FOLDERS."""
    from gitops.cli.status import decoded

    read = (read_drift(data) for path, data in files.items() if path.startswith(f"{DRIFT}/") and path.endswith(".yaml"))
    drifts = [drift for drift in read if drift is not None]
    clusters = decoded({path: data for path, data in files.items() if path.startswith(CLUSTERS)}).values()
    unreachable = {
        str(body.get("name")): f"it does not answer since {body.get('since')}"
        for body in clusters
        if body.get("status") != "Reachable" and (not chosen.clusters or body.get("name") in chosen.clusters)
    }
    known = {str(body.get("name")) for body in clusters}
    nothing = ""
    if not known:
        nothing = "Nothing is reported yet."
    elif (chosen.clusters and not known & chosen.clusters) or not _is_told(files, drifts, chosen):
        nothing = f"Nothing is reported of {chosen}."
    return narrowed(DriftView(tuple(sorted(drifts, key=lambda d: d.unit)), unreachable, nothing), chosen)


def _is_told(files: Mapping[str, bytes], drifts: Iterable[UnitDrift], chosen: Filter) -> bool:
    if chosen.names((drift.unit for drift in drifts), ("",)):
        return True
    from gitops.cli.status import decoded

    bodies = decoded({path: data for path, data in files.items() if path.startswith(f"{ROOT}/")}).values()
    units = (body["unit"] for body in bodies if isinstance(body.get("unit"), str))
    workloads = (str(body["name"]) for body in bodies if "name" in body and body.get("kind") != "ClusterStatus")
    return chosen.names((key for text in units if (key := _parsed(text)) is not None), workloads)


def _parsed(text: str) -> UnitKey | None:
    try:
        return UnitKey.parse(text)
    except ValueError:
        return None  # others write on that branch too


def narrowed(view: DriftView, chosen: Filter) -> DriftView:
    """What a filter takes of a view."""
    drifts = [drift for drift in view.drifts if chosen.takes(drift.unit)]
    if chosen.only_open:
        drifts = [replace(drift, records=tuple(drift.open), left_out=0, added={}) for drift in drifts]
    return replace(view, drifts=tuple(drift for drift in drifts if drift or drift.open_left_out))


@dataclass(frozen=True, slots=True)
class Row:
    """What belongs together: drifts that are open, times that anything drifted, in which units and files, and when it
    last did."""

    name: str
    open: int
    times: int
    units: tuple[str, ...]
    files: tuple[str, ...]
    last: str


def grouped(records: Iterable[DriftRecord], by: By) -> list[Row]:
    """What is open most first."""
    found: dict[str, list[DriftRecord]] = {}
    for record in records:
        found.setdefault(_group(record, by), []).append(record)
    rows = [
        Row(
            name,
            sum(r.is_open for r in each),
            sum(r.count for r in each),
            tuple(sorted({str(r.unit) for r in each})),
            tuple(sorted({r.declared_at.file for r in each})),
            max(r.detected_at for r in each).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )
        for name, each in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.open, -row.times, row.name))


def _group(record: DriftRecord, by: By) -> str:
    if by == "manager":
        return who(record)
    if by == "cluster":
        return record.unit.cluster
    return str(record.unit.workload) if by == "workload" else record.declared_at.file
