"""status/README.md: the table that people read on the forge. Deterministic, bounded, worst first, no ages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gitops.readiness.functions import ClusterStatus
from gitops.report.markdown import code, inert
from gitops.report.paths import cluster_path, readme_path, workload_path
from gitops.report.status_files import WorkloadReport, stamp

ROW_LIMIT = 200

_ORDER = (
    "ERROR",
    "Failed",
    "DEGRADED",
    "Terminating",
    "Missing",
    "DEGRADING",
    "Degraded",
    "DEPLOYING",
    "Progressing",
    "Unknown",
    "ACTIVE",
    "Ready",
    "Completed",
    "Suspended",
    "INACTIVE",
    "Empty",
)
_MARKS = {
    "🔴": frozenset({"ERROR", "Failed", "DEGRADED", "Missing"}),
    "🟠": frozenset({"DEGRADING", "Degraded", "Terminating", "Unknown"}),
    "🟡": frozenset({"DEPLOYING", "Progressing"}),
    "🟢": frozenset({"ACTIVE", "Ready", "Completed"}),
}


def render_readme(
    *,
    head: str,
    branch: str,
    workloads: Sequence[WorkloadReport],
    clusters: Sequence[ClusterStatus],
    complete: bool = True,
    errors: Sequence[str] = (),
    previous: bytes | None = None,
) -> tuple[str, bytes]:
    """(path, content). `head` is the last observed commit of the watched branch; `errors` are findings of severity
    error, one line each; `complete` False when something unreadable hides which workloads exist."""
    lines = [
        "# Status",
        "",
        f"Observed head: `{code(head)}` of `{code(branch)}`.",
        "",
    ]
    if not complete:
        lines += ["**The commit could not be read completely: nothing is pruned until it can.**", ""]
    lines += _workloads(workloads)
    lines += _clusters(clusters)
    if errors:
        lines += ["## Errors", ""]
        lines += [f"- {inert(error)}" for error in errors[:ROW_LIMIT]]
        lines += [*_more(len(errors)), ""]
    text = "\n".join(lines).rstrip() + "\n"
    if previous is not None and _meaning(previous.decode("utf-8", "replace")) == _meaning(text):
        return readme_path(), previous
    return readme_path(), text.encode()


_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def _meaning(text: str) -> list[list[str]]:
    """The cells of each line without times and without the last column: what operators say moves all the time."""
    return [[c for c in line.split("|")[:-2] if not _STAMP.search(c)] or [line] for line in text.splitlines()]


def _workloads(reports: Sequence[WorkloadReport]) -> list[str]:
    lines = ["## Workloads", ""]
    if not reports:
        return [*lines, "None is declared.", ""]
    lines += ["| | Workload | Status | Live | Since | Why |", "|---|---|---|---|---|---|"]
    ordered = sorted(reports, key=lambda r: (_rank(r.status.state), r.workload))
    for report in ordered[:ROW_LIMIT]:
        status = report.status
        link = workload_path(report.workload).removeprefix("status/")
        why = status.cause
        if report.held:
            why = f"held at its last good commit: {report.held[0]}" + (f"; {why}" if why else "")
        lines.append(
            f"| {_mark(status.state)} | [{inert(str(report.workload))}]({link}) "
            f"| {status.state}{' (held)' if report.held else ''} "
            f"| {status.live}/{status.expected} | {stamp(status.since)} | {inert(why)} |"
        )
    return [*lines, *_more(len(reports)), ""]


def _clusters(statuses: Sequence[ClusterStatus]) -> list[str]:
    lines = ["## Clusters", ""]
    if not statuses:
        return [*lines, "None is declared.", ""]
    lines += ["| | Cluster | Status | Since | Units | Why |", "|---|---|---|---|---|---|"]
    for status in sorted(statuses, key=lambda s: (s.reachable, s.name))[:ROW_LIMIT]:
        units = ", ".join(f"{count} {word}" for word, count in status.units)
        link = cluster_path(status.name).removeprefix("status/")
        lines.append(
            f"| {'🟢' if status.reachable else '🔴'} | [{inert(status.name)}]({link}) | {status.state} "
            f"| {stamp(status.since)} | {units} | {inert(status.message)} |"
        )
    return [*lines, *_more(len(statuses)), ""]


def _rank(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else -1


def _mark(state: str) -> str:
    return next((mark for mark, states in _MARKS.items() if state in states), "⚪")


def _more(count: int) -> list[str]:
    return ["", f"… and {count - ROW_LIMIT} more."] if count > ROW_LIMIT else []
