"""Status files: small, deterministic YAML on the status branch. Pure rendering; nothing is read or written here.

A file changes only when its meaning does. Messages of operators hold counters and pod names that move all the time, and
`since` is not known exactly after a restart: both are no part of the meaning, so a file that says the same otherwise is
kept as it is, byte for byte (`previous`). No ages, no resource versions, no unbounded list, no secret.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import yaml

from gitops.manifests.writing import yaml_text
from gitops.model.documents import API_VERSION
from gitops.model.identity import ObjectRef, UnitKey, WorkloadRef
from gitops.readiness.aggregating import UnitMemory, UnitStatus
from gitops.readiness.functions import ClusterStatus, InstanceView, WorkloadStatus
from gitops.readiness.statuses import Status
from gitops.readiness.texts import one_line
from gitops.report.paths import cluster_path, placements_path, unit_path, workload_path

LIST_LIMIT = 100
HEADER = "# Written by the reconciler; changes made here are overwritten.\n"
_NO_MEANING = re.compile(rb"^( *(?:- )?)(?:message|cause|since):.*$|^lastAudit:.*\n", re.MULTILINE)
"""Lines that are no part of the meaning. Every value of our files is on one line (texts.one_line), so lines tell, and
nothing has to be parsed: that was most of the cost of a status commit."""

_LAST_KNOWN = (
    *("phase", "ready", "flags", "commit", "version", "namespace", "mode", "outcome", "held", "heldOmitted"),
    *("leftToOthers", "leftToOthersOmitted"),
    *("conditions", "objects", "objectsOmitted", "mappingProblems", "mappingProblemsOmitted"),
)
"""What a unit's file goes on saying while its cluster does not answer; anything else in it is not ours."""

_FIELD = re.compile(rb"^(apiVersion|status|since|previouslyActive): '?([^'\n]*)'?$", re.MULTILINE)
_CONDITION = re.compile(
    rb"^- type: (\w+)\n  status: '(\w+)'\n(?:  reason: [^\n]*\n)?  since: '([^'\n]*)'$", re.MULTILINE
)


_LAST_AUDIT = re.compile(rb"^lastAudit: '?([0-9TZ:-]+)'?$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class UnitReport:
    """What a unit's file says besides its verdict.

    `commit` is the one whose content is applied: the last that changed this unit, or its file would change with every
    commit of the repository. `outcome` is the last apply's sentence where it did not go well; `held` are the findings
    that keep a workload at its last good commit; `left_to_others` are fields that other managers have;
    `unreachable_since` in epoch seconds when the cluster does not answer.
    """

    key: UnitKey
    status: UnitStatus
    commit: str
    version: str = ""
    namespace: str = ""
    mode: str = "enforce"
    outcome: str = ""
    held: tuple[str, ...] = ()
    left_to_others: tuple[str, ...] = ()
    unreachable_since: float | None = None


@dataclass(frozen=True, slots=True)
class WorkloadReport:
    """What a workload's file says: its verdict, declared version, and the findings that hold it."""

    workload: WorkloadRef
    status: WorkloadStatus
    version: str = ""
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Previous:
    """What matters of an existing status file. `state` is the status word of whatever kind of file it is; `conditions`
    of a unit's file: type → (status, since)."""

    state: str
    since: float
    previously_active: bool = False
    conditions: Mapping[str, tuple[str, float]] = field(default_factory=dict)

    @property
    def pair(self) -> tuple[str, float]:
        """As function_status() and cluster_status() take it."""
        return self.state, self.since

    def unit_memory(self) -> UnitMemory:
        """As unit_status() takes it after a restart."""
        known = self.state in Status._value2member_map_
        return UnitMemory.restored(Status(self.state), self.since, self.conditions) if known else UnitMemory()


def render_unit(report: UnitReport, *, previous: bytes | None = None) -> tuple[str, bytes]:
    """(path, content) of a unit's file; `previous` is the file as it is on the branch now."""
    status = report.status
    reachable = report.unreachable_since is None
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "UnitStatus",
        "unit": str(report.key),
        "status": str(status.status if reachable else Status.UNKNOWN),
        "reason": status.reason if reachable else "Unreachable",
        "cause": one_line(status.cause) if reachable else f"cluster {report.key.cluster} is unreachable",
        "since": stamp(status.since if report.unreachable_since is None else report.unreachable_since),
        "lastKnown": "" if reachable else str(status.status),
        "phase": status.phase,
        "ready": f"{status.ready_count}/{status.expected_count}",
        "flags": sorted(str(f) for f in status.flags),
        "commit": report.commit,
        "version": report.version,
        "namespace": report.namespace,
        "mode": report.mode,
        "outcome": {"message": one_line(report.outcome)} if report.outcome else None,
        **_bounded("held", [one_line(text) for text in report.held]),
        **_bounded("leftToOthers", [one_line(text) for text in report.left_to_others]),
        "conditions": [
            _lean(type=c.type, status=c.status, reason=c.reason, since=stamp(c.since), message=one_line(c.message))
            for c in status.conditions
        ],
        "objects": [
            _lean(
                object=object_text(row.ref),
                status=str(row.status),
                reason=row.reason,
                flags=sorted(str(f) for f in row.flags),
                message=one_line(row.message),
            )
            for row in status.objects
        ],
        "objectsOmitted": status.omitted,
        **_bounded("mappingProblems", list(status.problems), 20),
    }
    return unit_path(report.key), emit(body, previous)


def render_unreachable(previous: bytes, key: UnitKey, *, since: float) -> bytes | None:
    """A unit's file when its cluster does not answer and nothing else is known than what the file says; None when it is
    not one of ours. The branch is open to others: whatever they wrote there must not keep us from writing."""
    try:
        known = yaml.load(previous, yaml.CSafeLoader)
        if not isinstance(known, dict) or known.get("apiVersion") != API_VERSION:
            return None
        return emit(_unreachable(known, key, since), previous)
    except (yaml.YAMLError, ValueError, UnicodeError, RecursionError):
        return None


def _unreachable(known: Mapping[str, Any], key: UnitKey, since: float) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": "UnitStatus",
        "unit": str(key),
        "status": str(Status.UNKNOWN),
        "reason": "Unreachable",
        "cause": f"cluster {key.cluster} is unreachable",
        "since": stamp(since),
        "lastKnown": known.get("lastKnown") or known.get("status", ""),
        **{name: known[name] for name in _LAST_KNOWN if name in known},
    }


def render_workload(report: WorkloadReport, *, previous: bytes | None = None) -> tuple[str, bytes]:
    """(path, content) of the file of a Function, Bundle, …"""
    status = report.status
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": f"{str(report.workload.kind).capitalize()}Status",
        "name": report.workload.name,
        "status": status.state,
        "cause": one_line(status.cause),
        "since": stamp(status.since),
        "previouslyActive": status.previously_active,
        "version": report.version,
        "live": f"{status.live}/{status.expected}",
        "unreachable": status.unreachable,
        "failed": status.failed,
        **_bounded("held", [one_line(text) for text in report.held]),
        **_bounded("instances", [_instance(i) for i in status.instances]),
    }
    return workload_path(report.workload), emit(body, previous)


def render_cluster(status: ClusterStatus, *, previous: bytes | None = None) -> tuple[str, bytes]:
    """(path, content) of a cluster's file."""
    body: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "ClusterStatus",
        "name": status.name,
        "status": status.state,
        "reason": status.reason,
        "message": one_line(status.message),
        "since": stamp(status.since),
        "mode": status.mode,
        "uid": status.uid,
        "serverVersion": status.server_version,
        "writer": status.lease_holder,
        "units": dict(status.units),
        "stale": [{"kind": kind, "since": stamp(since), "message": one_line(why)} for kind, since, why in status.stale],
        "lastAudit": _last_audit(status, previous),
        "auditFindings": list(status.audit_findings),
        **({"leftBehind": list(status.left_behind)} if status.left_behind else {}),
    }
    return cluster_path(status.name), emit(body, previous)


def _last_audit(status: ClusterStatus, previous: bytes | None) -> str:
    """When the last audit ended, also one before this process began. It is no part of the meaning: a file that says
    nothing else anew is not written for it."""
    if status.audited is not None:
        return stamp(status.audited)
    told = _LAST_AUDIT.search(previous or b"")
    return told[1].decode() if told is not None else ""


def render_placements(units: Sequence[UnitKey], *, previous: bytes | None = None) -> tuple[str, bytes]:
    """(path, content) of the file that says which unit is where; a projection of the parents on the clusters."""
    placed: dict[str, dict[str, str]] = {}
    for key in sorted(units):
        placed.setdefault(str(key.workload), {})[key.instance or f"@{key.cluster}"] = key.cluster
    body = {"apiVersion": API_VERSION, "kind": "Placements", "placements": placed}
    return placements_path(), emit(body, previous)


def read_since(data: bytes | None) -> Previous | None:
    """What a status file said; None for no file and for one that is not ours. Never raises: it is only a projection."""
    found = {name.decode(): value.decode(errors="replace") for name, value in _FIELD.findall(data or b"")}
    if found.get("apiVersion") != API_VERSION or not found.get("status"):
        return None
    try:
        since = _seconds(found.get("since", ""))
        rows = [[part.decode() for part in row] for row in _CONDITION.findall(data or b"")]
        conditions = {kind: (status, _seconds(at)) for kind, status, at in rows}
    except ValueError:
        return None
    return Previous(found["status"], since, found.get("previouslyActive") == "true", conditions)


# -- helpers ---------------------------------------------------------------------------------------------------------


def stamp(seconds: float) -> str:
    """Epoch seconds → `2026-11-30T13:52:43Z`."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _seconds(stamped: str) -> float:
    """The reverse of stamp(); raises ValueError."""
    return datetime.fromisoformat(stamped).timestamp()


def object_text(ref: ObjectRef) -> str:
    """`Deployment.apps fn-llama/llama`"""
    return one_line(str(ref), 520)


def emit(body: Mapping[str, Any], previous: bytes | None) -> bytes:
    """The file's bytes; `previous` itself when that means the same. Empty fields are left out."""
    data = (HEADER + yaml_text(_lean(**body))).encode()
    return previous if previous is not None and _meaning(previous) == _meaning(data) else data


def _lean(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [], {}, 0, False)}


def _bounded(name: str, items: list[Any], limit: int = LIST_LIMIT) -> dict[str, Any]:
    omitted = max(0, len(items) - limit)
    return {name: items[:limit], f"{name}Omitted": omitted}


def _instance(view: InstanceView) -> dict[str, Any]:
    return _lean(
        unit=str(view.key),
        status=str(view.status if view.reachable else Status.UNKNOWN),
        reason=view.reason if view.reachable else "Unreachable",
        ready=f"{view.ready_count}/{view.expected_count}",
        live="yes" if view.live else "no",
        serving={None: "", True: "yes", False: "no"}[view.serving],
        flags=sorted(str(f) for f in view.flags),
        since=stamp(view.since),
        message=one_line(view.cause),
    )


def _meaning(data: bytes) -> bytes:
    return _NO_MEANING.sub(rb"\1", data)
