"""An object while it is merged: its value, who set what, and which values were there before and are not any more."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from gitops.manifests.canonical import copy_json, same_json
from gitops.manifests.lines import Path
from gitops.model.findings import Origin
from gitops.overlays.parts import Parts, PartsWatch
from gitops.overlays.provenance import Provenance
from gitops.overlays.traces import BASE, Trace, trace_of


class Absent(enum.Enum):
    """Marks that there is no value: null is a value."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT


@dataclass(frozen=True, slots=True)
class Override:
    """A value that was there before a patch and is different or gone after it.

    One for each changed leaf; one for a whole list that is replaced, and one for a map that is removed or replaced. The
    path is the value's place at that moment: a later operation on a list may move it. `before` and `after` are for
    reading only.
    """

    path: Path
    before: Any
    after: Any  # ABSENT when removed
    before_origin: Origin
    after_origin: Origin
    over_overlay: bool = False  # an earlier patch had set the value, or a part of it

    @property
    def removed(self) -> bool:
        return self.after is ABSENT

    @property
    def type_changed(self) -> bool:
        """Between map, list, text, number and boolean; integers and fractions are both numbers."""
        return not self.removed and _type_of(self.before) != _type_of(self.after)

    @property
    def vanished(self) -> tuple[str, ...]:
        """What a replacement drops: keys of a map, or names of the items of a named list (env, containers, …).

        Why: people write a list with one env variable, or add a map that is there already, and lose all the rest.
        """
        before, after = _names(self.before), frozenset(_names(self.after))
        return tuple(name for name in before if name not in after) if type(self.before) is type(self.after) else ()


@dataclass(slots=True)
class State:
    """`trace` has the form of `body`, which is private to this state."""

    body: dict[str, Any]
    trace: Trace
    watch: PartsWatch
    copied: int = 0  # bytes, by all operations
    overridden: list[Override] = field(default_factory=list)

    @classmethod
    def of(cls, base: dict[str, Any], provenance: Provenance, parts: Iterable[Parts]) -> State:
        return cls(copy_json(base), trace_of(base, provenance, BASE), PartsWatch(parts, base))

    def override(self, path: Path, *, before: Any, trace: Trace, after: Any, origin: Origin, source: int) -> None:
        """Note a value that patch `source` replaced or removed, unless it is as it was; `trace` is of the old one."""
        if after is ABSENT or not same_json(before, after):
            again = trace.touched_before(source)
            self.overridden.append(Override(path, before, copy_json(after), trace.origin, origin, again))


def _type_of(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    return type(value).__name__


def _names(value: Any) -> tuple[str, ...]:
    if isinstance(value, dict):
        return tuple(value)
    if not isinstance(value, list):
        return ()
    return tuple(i["name"] for i in value if isinstance(i, dict) and isinstance(i.get("name"), str))
