"""From units to a function, and from a cluster's answers to its status."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gitops.model.identity import ClusterName, UnitKey
from gitops.readiness.statuses import FINE, WORST_FIRST, Flag, Status
from gitops.readiness.texts import one_line


class FunctionState(enum.StrEnum):
    """NVCF's function statuses. Only ACTIVE and DEGRADING can be invoked."""

    INACTIVE = "INACTIVE"
    DEPLOYING = "DEPLOYING"
    ACTIVE = "ACTIVE"
    DEGRADING = "DEGRADING"
    DEGRADED = "DEGRADED"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class InstanceView:
    """One unit as its function or cluster sees it.

    `serving`: with a serviceName, whether that Service's port has a ready endpoint; None when none is declared.
    `since` is the unit's; `reachable` False when its cluster does not answer (its status is then the last known one).
    """

    key: UnitKey
    status: Status
    since: float
    reason: str = ""
    cause: str = ""
    ready_count: int = 0
    expected_count: int = 0
    flags: frozenset[Flag] = frozenset()
    reachable: bool = True
    serving: bool | None = None
    commit: str = ""

    @property
    def live(self) -> bool:
        """Reachable, Ready and (where asked) serving. Unreachable is never live."""
        return self.reachable and self.status is Status.READY and self.serving is not False


@dataclass(frozen=True, slots=True)
class WorkloadStatus:
    """A Function's state (`state`), or for other kinds the worst status of its units (also in `state`).

    `previously_active` must be kept (the status file holds it): it tells DEGRADED from DEPLOYING.
    """

    state: str
    live: int
    expected: int
    unreachable: int
    failed: int
    previously_active: bool
    since: float
    cause: str = ""
    instances: tuple[InstanceView, ...] = ()


def function_status(
    instances: Sequence[InstanceView],
    *,
    previously_active: bool,
    now: float,
    previous: tuple[str, float] | None = None,
) -> WorkloadStatus:
    """The status of a Function over all its instances; `previous` is (state, since) as last reported.

    INACTIVE nothing placed · DEPLOYING none live yet · ACTIVE all live · DEGRADING some · DEGRADED none after having
    been active · ERROR all failed. An unreachable instance counts as neither live nor failed and caps it at DEGRADING.
    """
    live = sum(i.live for i in instances)
    unreachable = sum(not i.reachable for i in instances)
    failed = sum(i.reachable and i.status is Status.FAILED for i in instances)
    if not instances:
        state = FunctionState.INACTIVE
    elif live == len(instances):
        state = FunctionState.ACTIVE
    elif live:
        state = FunctionState.DEGRADING
    elif failed == len(instances):
        state = FunctionState.ERROR
    else:
        state = FunctionState.DEGRADED if previously_active else FunctionState.DEPLOYING
    active = bool(instances) and (previously_active or live > 0)
    return _workload(str(state), instances, live, unreachable, failed, active, now=now, previous=previous)


def bundle_status(
    units: Sequence[InstanceView], *, now: float, previous: tuple[str, float] | None = None
) -> WorkloadStatus:
    """The status of a Bundle over its clusters: the worst of those that answer, Unknown where one does not.

    `Empty` when it selects no cluster.
    """
    statuses = [u.status if u.reachable else Status.UNKNOWN for u in units]
    worst = min(statuses, key=WORST_FIRST.index, default=None)
    if worst is Status.SUSPENDED and Status.READY in statuses:
        worst = Status.READY
    elif worst is Status.READY and all(s is Status.COMPLETED for s in statuses):
        worst = Status.COMPLETED
    live = sum(u.reachable and u.status in FINE for u in units)
    unreachable = sum(not u.reachable for u in units)
    failed = sum(u.reachable and u.status is Status.FAILED for u in units)
    state = str(worst) if worst else "Empty"
    return _workload(state, units, live, unreachable, failed, False, now=now, previous=previous)


def _workload(
    state: str,
    instances: Sequence[InstanceView],
    live: int,
    unreachable: int,
    failed: int,
    active: bool,
    *,
    now: float,
    previous: tuple[str, float] | None,
) -> WorkloadStatus:
    ordered = tuple(sorted(instances, key=lambda i: i.key))
    wanting = [i for i in ordered if not (i.reachable and i.status in FINE and i.serving is not False)]
    worst = min(wanting, key=lambda i: (i.reachable, WORST_FIRST.index(i.status), i.key), default=None)
    return WorkloadStatus(
        state=state,
        live=live,
        expected=len(instances),
        unreachable=unreachable,
        failed=failed,
        previously_active=active,
        since=previous[1] if previous and previous[0] == state else now,
        cause=_cause(worst) if worst else "",
        instances=ordered,
    )


def _cause(instance: InstanceView) -> str:
    where = f"{instance.key.instance}@{instance.key.cluster}" if instance.key.instance else f"@{instance.key.cluster}"
    if not instance.reachable:
        return one_line(f"{where}: cluster {instance.key.cluster} is unreachable")
    if instance.status in FINE:
        return one_line(f"{where}: its service has no ready endpoint")
    return one_line(f"{where}: {instance.cause or instance.reason or instance.status}")


@dataclass(frozen=True, slots=True)
class ClusterStatus:
    """A target cluster as the daemon sees it. `units` counts units by status word."""

    name: ClusterName
    reachable: bool
    since: float
    reason: str = ""  # Reachable | Unreachable | Unauthorized | Claimed | Standby | NeverReached …
    message: str = ""
    server_version: str = ""
    lease_holder: str = ""
    mode: str = ""
    uid: str = ""
    units: tuple[tuple[str, int], ...] = ()
    left_behind: tuple[str, ...] = ()  # objects that may be orphans, a sentence each
    stale: tuple[tuple[str, float, str], ...] = ()  # kinds that cannot be seen: kind, since, why
    audited: float | None = None  # end of the last audit
    audit_findings: tuple[str, ...] = ()  # what it found and nothing else had told, a sentence each

    @property
    def state(self) -> str:
        return "Reachable" if self.reachable else "Unreachable"


def cluster_status(
    name: ClusterName,
    *,
    reachable: bool,
    now: float,
    units: Iterable[InstanceView] = (),
    reason: str = "",
    message: str = "",
    facts: Mapping[str, str] | None = None,
    left_behind: Iterable[str] = (),
    stale: Iterable[tuple[str, float, str]] = (),
    audited: float | None = None,
    audit_findings: Iterable[str] = (),
    previous: tuple[str, float] | None = None,
) -> ClusterStatus:
    """`facts`: server_version, lease_holder, mode, uid. `previous` is (state, since) as last reported; a cluster that
    does not answer has all its units counted as Unknown: what is not known is never green."""
    facts = facts or {}
    state = "Reachable" if reachable else "Unreachable"
    counts = Counter(str(u.status if reachable else Status.UNKNOWN) for u in units)
    return ClusterStatus(
        name=name,
        reachable=reachable,
        since=previous[1] if previous and previous[0] == state else now,
        reason=reason or state,
        message=one_line(message),
        server_version=facts.get("server_version", ""),
        lease_holder=facts.get("lease_holder", ""),
        mode=facts.get("mode", ""),
        uid=facts.get("uid", ""),
        units=tuple(sorted(counts.items())),
        left_behind=tuple(one_line(sentence) for sentence in left_behind),
        stale=tuple(sorted(stale)),
        audited=audited,
        audit_findings=tuple(one_line(sentence) for sentence in audit_findings),
    )
