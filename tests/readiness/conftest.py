"""Fixtures for readiness: the shipped mappings, objects, and recordings played through all of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from gitops.model.identity import GroupKind, ObjectRef
from gitops.readiness.aggregating import DeclaredStatus, UnitMemory, UnitStatus, unit_status
from gitops.readiness.evaluating import foresee
from gitops.readiness.mapping import Mappings
from gitops.readiness.owners import OwnerIndex, project, ref_of
from gitops.readiness.statuses import Outlook, Role, Status

OUR_MANAGER = "gitops-demo"

# When t = 0 was, found by comparing `t` with the recording's own times (managedFields, whole seconds).
STARTED = {"dynamo-graph": "2026-11-30T13:52:41.4Z", "nim-service": "2026-11-30T13:56:30.9Z"}

ROLES = {
    GroupKind("nvidia.com", "DynamoComponentDeployment"): Role.GATE,
    GroupKind("apps", "Deployment"): Role.GATE,
    GroupKind("", "PersistentVolumeClaim"): Role.GATE,
    GroupKind("", "Pod"): Role.DIAGNOSE,
}


@dataclass(slots=True)
class Entry:
    t: float
    status: UnitStatus

    def __str__(self) -> str:
        s = self.status
        return f"{self.t:9.3f} {s.status:<11} {s.ready_count}/{s.expected_count} {s.phase:<10} {s.reason}: {s.cause}"


@dataclass(slots=True, repr=False)
class Timeline:
    """Every change of a unit's status, reason or counts, in the order of the recording."""

    entries: list[Entry] = field(default_factory=list)

    def at(self, t: float) -> UnitStatus:
        return [e for e in self.entries if e.t <= t][-1].status

    def statuses(self, start: float = 0.0, end: float = 1e9) -> list[Status]:
        """Statuses in force from start to end without repetition."""
        before = [e for e in self.entries if e.t <= start][-1:]
        found = [e.status.status for e in before + [e for e in self.entries if start < e.t <= end]]
        return [s for i, s in enumerate(found) if i == 0 or found[i - 1] is not s]

    def first(self, status: Status, after: float) -> float:
        return next(e.t for e in self.entries if e.t >= after and e.status.status is status)

    def __repr__(self) -> str:
        return "\n" + "\n".join(map(str, self.entries)) + "\n"


class Player:
    """Plays one recording event by event, with timers between the events, as the engine does."""

    def __init__(self, mappings: Mappings, path: Path) -> None:
        self.mappings = mappings
        self.base = datetime.fromisoformat(STARTED[path.name.split(".")[0]]).timestamp()
        with gzip.open(path) as lines:
            self.rows = [json.loads(line) for line in lines]

    def play(self, kind: str, *, until: float = 1e9, idle: float = 120.0, restart: float = 1e9) -> Timeline:
        """The unit whose declared objects are those of `kind` that our manager applied.

        `restart`: at that time everything is forgotten but what a status file says, and
        learnt again from a LIST, as after a restart of the daemon.
        """
        owners, timeline = OwnerIndex(), Timeline()
        declared: dict[ObjectRef, tuple[str, Outlook | None]] = {}
        memory: UnitMemory | None = None
        check: float | None = None
        live: dict[str, dict[str, Any]] = {}

        def learn(obj: dict[str, Any], now: float) -> None:
            ref, uid, mapping = ref_of(obj), obj["metadata"]["uid"], self.mappings.for_object(obj)
            if is_declared(obj):
                before = declared.get(ref, ("", None))[1]
                kept = before.at(now)[1] if before else None
                declared[ref] = (uid, foresee(obj, mapping, now=now, memory=kept))
            else:
                known = owners.get(uid)
                owners.put(project(obj, mapping, now=now, memory=known.memory(now) if known else None))

        def is_declared(obj: dict[str, Any]) -> bool:
            managers = {e["manager"] for e in obj["metadata"].get("managedFields", [])}
            return obj["kind"] == kind and OUR_MANAGER in managers

        def look(now: float) -> None:
            nonlocal memory, check
            states = [
                DeclaredStatus(ref, outlook.at(now)[0] if outlook else None, uid=uid)
                for ref, (uid, outlook) in declared.items()
            ]
            status, memory = unit_status(states, owners=owners, now=now, roles=ROLES, memory=memory)
            check = status.next_check
            last = timeline.entries[-1].status if timeline.entries else None
            if last is None or _visible(last) != _visible(status):
                timeline.entries.append(Entry(round(now - self.base, 3), status))

        for row in (r for r in self.rows if r["t"] <= until):
            now, obj = self.base + row["t"], row["object"]
            uid = obj["metadata"]["uid"]
            while check is not None and check <= min(now, self.base + restart):
                look(check)
            if row["t"] > restart:
                again, restart = self.base + restart, 1e9
                declared.clear()
                owners = OwnerIndex()
                memory = UnitMemory.restored(memory.status, memory.since) if memory else None
                for known in live.values():
                    learn(known, again)
                look(again)
                while check is not None and check <= now:
                    look(check)
            if row["type"] != "DELETED":
                live[uid] = obj
                learn(obj, now)
            elif is_declared(obj):
                declared[ref_of(obj)] = (uid, None)
            else:
                live.pop(uid, None)
                owners.remove(uid)
            if declared:
                look(now)
        end = self.base + min(until, self.rows[-1]["t"]) + idle
        while check is not None and check <= end:
            look(check)
        return timeline


def _visible(status: UnitStatus) -> tuple[object, ...]:
    return status.status, status.reason, status.ready_count, status.expected_count


@pytest.fixture(scope="session")
def mappings() -> Mappings:
    return Mappings.shipped()


@pytest.fixture(scope="session")
def play(mappings: Mappings, shared: Path) -> Callable[..., Timeline]:
    """`play("nim-service", "NIMService")` → Timeline of that unit."""

    def run(name: str, kind: str, **options: Any) -> Timeline:
        return Player(mappings, shared / "recordings" / f"{name}.jsonl.gz").play(kind, **options)

    return run


NOW = datetime.fromisoformat("2026-11-30T12:00:00Z").timestamp()


@pytest.fixture
def now() -> float:
    """A fixed time: 2026-11-30 12:00:00 UTC."""
    return NOW


@pytest.fixture
def make() -> Callable[..., dict[str, Any]]:
    """`make("apps/v1", "Deployment", spec=…, status=…, owner=…)` → a live object with uid and generation 1."""
    count = iter(range(1, 10_000))

    def build(api_version: str, kind: str, name: str = "x", **parts: Any) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "ns", "uid": f"uid-{next(count)}", "generation": 1}
        if owner := parts.pop("owner", None):
            metadata["ownerReferences"] = [{"uid": owner["metadata"]["uid"], "controller": True}]
        metadata |= parts.pop("metadata", {})
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}

    return build
