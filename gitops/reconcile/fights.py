"""The fight breaker: two writers that undo each other must not load the API server for ever.

Each repair of a path heats it, and heat decays. A path that is undone again while it is hot is given up: only reported
for a pause, then tried once, and given up for twice as long when that is undone too. The rest of the object stays
enforced. (Config Sync counts the same way, KNV2005; Argo CD's and kapp-controller's loops without such a brake:
argo-cd#21599, kapp-controller#36.) Pure: no clock; times are epoch seconds, since they are told and stored.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.lines import Path
from gitops.model.identity import ObjectRef
from gitops.plan.units import PART_OF_LABEL, RECONCILER_LABEL, SOURCE_ANNOTATION, DesiredObject
from gitops.report.drift import DriftRecord

WHOLE: Path = ()
"""The path of a fight over the whole object: somebody deletes it, or takes all of its fields."""

MOST_PATHS = 16
"""Paths of one object that are told apart; whoever takes more at once takes the object."""

_COLD = 0.5
"""Heat below which nothing is remembered."""


@dataclass(frozen=True, slots=True)
class FightLimits:
    """`limit` repairs at once make a path contested; heat halves every `half_life` seconds, which is also the first
    pause; each try that is undone doubles the pause, up to `longest` seconds."""

    limit: float = 5.0
    half_life: float = 60.0
    longest: float = 3600.0

    def pause(self, rounds: int) -> float:
        return min(self.longest, self.half_life * 2.0 ** min(rounds - 1, 30))


@dataclass(frozen=True, slots=True)
class Fight:
    """Over one path of one object.

    `heat` is as of the last repair, `at`. `rounds`: how often in a row it was given up, the last time until `until`.
    `declared`: digest of what Git says there, b"" when it is not known. `theirs`: what they made of it, None while it
    is as declared.
    """

    heat: float = 0.0
    at: float = 0.0
    rounds: int = 0
    until: float = 0.0
    declared: bytes = b""
    theirs: DriftRecord | None = None

    def heat_at(self, now: float, limits: FightLimits) -> float:
        return self.heat * math.pow(0.5, max(0.0, now - self.at) / limits.half_life)

    def repaired(self, now: float, limits: FightLimits) -> Fight:
        return replace(self, heat=self.heat_at(now, limits) + 1.0, at=now, theirs=None)

    def undone(self, now: float, limits: FightLimits) -> Fight:
        """They changed it. Given up when it is hot, or when this undid the one try after a pause."""
        if self.contested_for(now, limits) > 0:
            return self
        lost_try = self.rounds > 0 and self.at >= self.until
        hot = self.rounds == 0 and self.heat_at(now, limits) > limits.limit - _COLD
        if not (lost_try or hot):
            return self
        return replace(self, rounds=self.rounds + 1, until=now + limits.pause(self.rounds + 1))

    def contested_for(self, now: float, limits: FightLimits) -> float:
        """Seconds until the next try. Never more than one pause, wherever the clock went meanwhile."""
        return min(max(0.0, self.until - now), limits.longest)

    def is_over(self, now: float, limits: FightLimits) -> bool:
        """Whether it may be forgotten: cold, or quiet for as long as the last pause was."""
        if self.rounds == 0:
            return self.heat_at(now, limits) < _COLD
        return now >= max(self.at, self.until) + limits.pause(self.rounds)


class Fights:
    """Of one cluster. Nothing is kept of objects that nobody fights over."""

    def __init__(self) -> None:
        self._paths: dict[ObjectRef, dict[Path, Fight]] = {}
        self._swept = 0.0

    def __len__(self) -> int:
        return sum(map(len, self._paths.values()))

    def of(self, ref: ObjectRef) -> Mapping[Path, Fight]:
        return self._paths.get(ref, _NONE)

    def repaired(self, desired: DesiredObject, paths: Iterable[Path], *, now: float, limits: FightLimits) -> None:
        """These paths of an object were written because others had changed them."""
        self._sweep(now, limits)
        body = desired.body
        fights = self._paths.setdefault(desired.ref, {})
        for path in paths:
            declared = _declared_at(body, path)
            before = fights.get(path)
            if before is None or before.declared != declared:
                before = Fight(declared=declared)
            fights[path] = before.repaired(now, limits)

    def undone(
        self, ref: ObjectRef, theirs: Mapping[Path, DriftRecord | None], *, now: float, limits: FightLimits
    ) -> list[Path]:
        """They changed these paths of an object; returns those that are given up by it."""
        fights = self._paths.get(ref)
        given_up = []
        for path, record in theirs.items() if fights else ():
            before = fights.get(path) if fights else None
            if fights is None or before is None:
                continue
            after = before.undone(now, limits)
            fights[path] = replace(after, theirs=record)
            if after.rounds > before.rounds:
                given_up.append(path)
        return given_up

    def contested(self, ref: ObjectRef, *, now: float, limits: FightLimits) -> dict[Path, Fight]:
        """The paths of an object that are given up at the moment."""
        return {p: f for p, f in self.of(ref).items() if f.contested_for(now, limits) > 0}

    def seen(self, ref: ObjectRef, path: Path, theirs: DriftRecord | None) -> None:
        """What a contested path looks like now."""
        self._paths[ref][path] = replace(self._paths[ref][path], theirs=theirs)

    def gone(self, ref: ObjectRef) -> None:
        """The object does not exist any more: what is made anew nobody has written yet."""
        self._keep(ref, {p: f for p, f in self.of(ref).items() if p == WHOLE})

    def review(self, whole: DesiredObject) -> None:
        """Forget fights over what Git declares otherwise now: that is to be tried at once."""
        fights = self._paths.get(whole.ref)
        if fights:
            body = whole.body
            now = {path: _declared_at(body, path) for path in fights}
            kept = {p: replace(f, declared=now[p]) for p, f in fights.items() if f.declared in (b"", now[p])}
            self._keep(whole.ref, kept)

    def _sweep(self, now: float, limits: FightLimits) -> None:
        if now - self._swept < limits.half_life and now >= self._swept:
            return
        self._swept = now
        for ref, fights in list(self._paths.items()):
            self._keep(ref, {p: f for p, f in fights.items() if not f.is_over(now, limits)})

    def _keep(self, ref: ObjectRef, fights: dict[Path, Fight]) -> None:
        if fights:
            self._paths[ref] = fights
        else:
            self._paths.pop(ref, None)

    # -- over a restart ----------------------------------------------------------------------------------------------

    def stored(self, refs: Iterable[ObjectRef], *, now: float, limits: FightLimits) -> tuple[tuple[str, str], ...]:
        """What the parent of a unit with these objects remembers: paths that were given up. A daemon that crashes again
        and again would else begin each of them anew, at full speed."""
        found = (
            (_key(ref, path), f"{fight.rounds} {fight.until:.0f} {_printable(ref, fight)}")
            for ref in refs
            for path, fight in self.of(ref).items()
            if fight.rounds and not fight.is_over(now, limits)
        )
        return tuple(sorted(found)[:MOST_PATHS])

    def restore(
        self, refs: Collection[ObjectRef], stored: Iterable[tuple[str, str]], *, now: float, limits: FightLimits
    ) -> None:
        """Take what a parent remembers of these objects; what cannot be read is forgotten."""
        names = {str(ref): ref for ref in refs}
        for key, value in stored:
            try:
                name, path = msgspec.json.decode(key, type=tuple[str, tuple[str | int, ...]])
                rounds, until, declared = value.split(" ")
                fight = Fight(rounds=int(rounds), until=float(until), declared=bytes.fromhex(declared))
            except (msgspec.DecodeError, ValueError):
                continue
            if name in names and fight.rounds > 0 and not fight.is_over(now, limits):
                self._paths.setdefault(names[name], {}).setdefault(path, fight)


_NONE: Mapping[Path, Fight] = {}
_MARKS = frozenset({RECONCILER_LABEL, PART_OF_LABEL, SOURCE_ANNOTATION})


def may_be_left_out(path: Path, body: Mapping[str, object]) -> bool:
    """Whether a path of an object can be left out of what is sent: a key of a map. An item of a list would vanish with
    what others have of it (ssa-live 29); where the fight is over the order of a list of maps, all in these maps would
    be left alone with it; and without our marks the object is lost to us."""
    if len(path) < 2 or not isinstance(path[-1], str) or path[-1] in _MARKS:
        return False
    value: Any = body
    for step in path:
        inside = isinstance(value, dict) or (isinstance(value, list) and isinstance(step, int) and step < len(value))
        value = (value.get(step) if isinstance(value, dict) else value[step]) if inside else None
    return not (isinstance(value, list) and any(isinstance(item, dict) for item in value))


def _key(ref: ObjectRef, path: Path) -> str:
    return msgspec.json.encode((str(ref), path)).decode()


def _printable(ref: ObjectRef, fight: Fight) -> str:
    """Not of a Secret: a short value could be found from its digest."""
    return "" if ref.kind == "Secret" else fight.declared.hex()


def _declared_at(body: Mapping[str, object], path: Path) -> bytes:
    """Digest of what Git says at a path. Positions in a list mean something only while the list is the same, so of a
    path through one it is the list's."""
    value: object = body
    for step in path:
        if isinstance(step, int) or not isinstance(value, dict):
            break
        value = value.get(step)
    return digest(canonical_json(value))
