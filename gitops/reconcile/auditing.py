"""The slow audit of one cluster: what a watch may have kept from us is listed, and a sample proves the rest.

A watch is believed all day; one that drops or swaps events (a broken proxy, kubernetes-client/python#801) would be for
ever. So once in a while every kind is listed anew through its own reflector: the events compare digests as ever, and
what differs is repaired by the units' own queues. Nothing is decided here. What no digest sees would stay wrong all the
same, so for a sample of objects that are taken to be as declared the forced apply is dry-run: it must change nothing.

Never in a hurry: one kind, one page, one call at a time, with a rest after the server has asked for a pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.cluster.applying import Applier
from gitops.cluster.errors import ApiError
from gitops.cluster.reflecting import Changed
from gitops.model.identity import ObjectRef
from gitops.plan.units import DesiredObject, Unit
from gitops.reconcile.context import Context
from gitops.reconcile.sightings import Sightings
from gitops.reconcile.state import ClusterState
from gitops.reconcile.watches import Sight, Watch, Watches

_log = logging.getLogger(__name__)

LIST_WITHIN = 300.0
"""Seconds for the list of one kind; the pages of a large one wait for other calls."""

SETTLE_WITHIN = 120.0
"""Seconds for the repair of what the lists found, before the sample is taken."""

CALM = 30.0
"""Seconds of rest after the server has asked for a pause; after so many of them the audit is given up for later."""
RESTS = 20

PATHS_TOLD = 5


class Check(enum.StrEnum):
    """What the dry run of one object says."""

    SAME = "same"
    DIFFERS = "differs"
    SKIPPED = "skipped"  # it could not be read or dry-run, or moved meanwhile


@dataclass(frozen=True, slots=True)
class AuditReport:
    """`ended` in Unix seconds. `found` counts differences that no watch had told. `unlisted` are kinds, `defects` a
    sentence for each object of which a forced apply would change what its digests do not show."""

    ended: float
    kinds: int
    found: int
    checked: int
    unlisted: tuple[str, ...] = ()
    defects: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """What people should know."""
        return (*(f"{kind} objects could not be listed" for kind in self.unlisted), *self.defects)

    def __str__(self) -> str:
        listed = f"{self.kinds - len(self.unlisted)} of {self.kinds} kinds listed"
        proven = f"{self.checked - len(self.defects)} of {self.checked} sampled objects proven to be as declared"
        return f"{listed}, {self.found} differences found that no watch had told, {proven}"


class _GivenUp(Exception):
    """An audit is not to go on."""


class Auditor:
    """`idle` returns when the units' queue has nothing to do, `throttled` counts the pauses that the server has asked
    for, `may_go` is False as soon as the cluster is not ours to look after."""

    def __init__(
        self,
        state: ClusterState,
        context: Context,
        *,
        watches: Watches,
        sightings: Sightings,
        applier: Applier,
        idle: Callable[[], Awaitable[None]],
        throttled: Callable[[], int],
        may_go: Callable[[], bool],
    ) -> None:
        self._state = state
        self._context = context
        self._watches = watches
        self._sightings = sightings
        self._applier = applier
        self._idle = idle
        self._throttled = throttled
        self._may_go = may_go
        self._pauses = 0

    async def run(self) -> AuditReport | None:
        """One audit; None when it had to be given up: the cluster is not ours any more, or asks for pauses without
        end."""
        self._pauses = self._throttled()
        try:
            report = await self._audit()
        except _GivenUp:
            return None
        self._context.metrics.audited(self._state.name, report.ended, report.found)
        _log.info("audit of cluster %s: %s", self._state.name, report)
        return report

    async def _audit(self) -> AuditReport:
        watches, before = self._watches.listed(), self._sightings.found
        unlisted = [str(watch.gvk) for watch in watches if not await self._list(watch)]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_WITHIN):
                await self._idle()
        checks: list[Check] = []
        defects = []
        for unit, desired in self._sample():
            await self._calm()
            check, sentence = await self._check(unit, desired)
            self._context.metrics.audit_checked(self._state.name, str(check))
            checks.append(check)
            defects += [sentence] if sentence else []
        found = self._sightings.found - before
        checked = sum(check is not Check.SKIPPED for check in checks)
        return AuditReport(self._context.wall(), len(watches), found, checked, tuple(unlisted), tuple(defects))

    async def _list(self, watch: Watch) -> bool:
        """List a kind; False when it is wanted and cannot be listed."""
        await self._calm()
        listed = await self._watches.list_again(watch, within=LIST_WITHIN)
        return listed or self._watches.sight(watch) is not Sight.SYNCED

    async def _calm(self) -> None:
        """Rest until the server asks for no more pauses. Raises _GivenUp."""
        for _ in range(RESTS):
            if not self._may_go():
                break
            if self._throttled() == self._pauses:
                return
            self._pauses = self._throttled()
            await asyncio.sleep(CALM)
        raise _GivenUp

    # -- the proof ---------------------------------------------------------------------------------------------------

    def _sample(self) -> list[tuple[Unit, DesiredObject]]:
        settled = [(u, o) for u in self._state.wanted.values() for o in u.objects if self._is_settled(o)]
        return self._context.rng.sample(settled, min(len(settled), self._context.options.audit_sample))

    def _is_settled(self, desired: DesiredObject) -> bool:
        """Is the object taken to be as declared?"""
        record, found = self._state.objects.get(desired.ref), self._state.declared(desired.ref)
        if record is None or found is None or found[1].digest != desired.digest or desired.handling.once:
            return False
        moving = record.deleting or record.suspect or record.in_flight or record.held
        return bool(record.uid) and record.applied == desired.digest and not moving

    async def _check(self, unit: Unit, desired: DesiredObject) -> tuple[Check, str]:
        applier = self._applier.in_name_of(unit.service_account)
        live = await applier.get(desired.gvk, desired.ref)
        if isinstance(live, ApiError) or live is None:
            return Check.SKIPPED, ""
        self._sightings.declared_event(Changed(live))  # what was read is news as what is watched
        if not self._is_settled(desired):
            return Check.SKIPPED, ""
        metadata = live["metadata"]
        outcome = await applier.apply(desired, dry_run=True, uid=metadata["uid"])
        moved = outcome.resource_version != metadata["resourceVersion"] or not self._is_settled(desired)
        if outcome.live is None or moved:
            return Check.SKIPPED, ""
        paths = list(itertools.islice(changes(live, outcome.live), PATHS_TOLD))
        if not paths:
            return Check.SAME, ""
        sentence = _unseen(desired.ref, paths)
        _log.error("audit of cluster %s: %s", self._state.name, sentence, extra={"unit": str(unit.key)})
        return Check.DIFFERS, sentence


def _unseen(ref: ObjectRef, paths: list[str]) -> str:
    return (
        f"{ref}: an apply would change {', '.join(paths)}, which its digests do not show: admission that came after "
        "the last apply, or a defect of this program"
    )


# -- what an apply would change --------------------------------------------------------------------------------------


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Paths, for people, at which the answer to a dry run is another than the live object; no values.

    The resourceVersion of a dry run says nothing, nor do the times of managedFields and the order that follows from
    them: where the server fills in defaults of an atomic field (`matchConstraints` of a ValidatingAdmissionPolicy)
    every apply moves the time of its entry and nothing else.
    """
    return _changes(_comparable(before), _comparable(after), "")


def _comparable(obj: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {name: value for name, value in (obj.get("metadata") or {}).items() if name != "resourceVersion"}
    entries = [{k: v for k, v in entry.items() if k != "time"} for entry in metadata.get("managedFields") or ()]
    metadata["managedFields"] = tuple(sorted(entries, key=_manager))  # no list: all of it is one path
    return {**obj, "metadata": metadata}


def _manager(entry: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry.get(part, "")) for part in ("manager", "operation", "subresource", "apiVersion"))


def _changes(before: Any, after: Any, path: str) -> Iterator[str]:
    if before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for name in [*before, *(name for name in after if name not in before)]:
            yield from _changes(before.get(name), after.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _changes(one, other, f"{path}[{index}]")
    else:
        yield path
