"""Labels and annotations with a meaning for the reconciler: which of them people may write, and what they say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

DEPENDS_ON = "gitops/depends-on"
"""`Kind.group/name` or `Kind.group/namespace/name`, separated by commas: objects of the unit that go first."""

ALLOW_CREDENTIAL_LIKE = "gitops/allow-credential-like"
"""`"true"`: values of this object that look like credentials are none."""

ALLOW_DELETE = "gitops/allow-delete"
"""`"true"`: an object that holds data may be pruned. Sent, since it is read from the live object once its declaration
is gone."""

CONFLICTS = "gitops/conflicts"
"""What becomes of fields that other managers write too and that no rule of the ownership table is about
(docs/ownership.md). Sent, so that whoever looks at the live object sees it."""

CONFLICT_ANSWERS = ("take", "yield", "ask")

MODE = "gitops/mode"
"""What may be done about this object; the strictest of its cluster's, its workload's and its own counts."""

MODES = ("enforce", "report", "paused")

RECREATE = "gitops/recreate"
"""`"true"`: when a field changes that the API server does not let change, the object may be deleted and made again."""

_REFERENCE = re.compile(r"([A-Z][A-Za-z0-9]*)((?:\.[a-z0-9][-a-z0-9.]*)?)((?:/[^/\s,]+){1,2})\Z")
_LONGEST = 4096


class BadAnnotationError(ValueError):
    """An annotation of ours with a value that means nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Dependency:
    """An object that must be applied before; `namespace` "" means: in the object's own."""

    group: str
    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        group = f".{self.group}" if self.group else ""
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind}{group}/{place}"


@dataclass(frozen=True, slots=True)
class Wishes:
    """What an object's annotations ask of us."""

    depends_on: tuple[Dependency, ...] = ()
    allow_credential_like: bool = False
    recreate: bool = False
    mode: str = "enforce"
    problems: tuple[tuple[str, str], ...] = field(default=())  # (annotation, what is wrong with it)


def read_wishes(annotations: dict[str, str]) -> Wishes:
    """Read our annotations; what is malformed is reported, never raised (cases.md X07)."""
    problems: list[tuple[str, str]] = []
    depends_on: tuple[Dependency, ...] = ()
    allow = recreate = False
    mode = "enforce"
    for key in sorted(annotations):
        try:
            if key == DEPENDS_ON:
                depends_on = parse_dependencies(annotations[key])
            elif key == ALLOW_CREDENTIAL_LIKE:
                allow = _truth(annotations[key])
            elif key == RECREATE:
                recreate = _truth(annotations[key])
            elif key == MODE:
                mode = _one_of(annotations[key], MODES)
            elif key == ALLOW_DELETE:
                _truth(annotations[key])
            elif key == CONFLICTS:
                _one_of(annotations[key], CONFLICT_ANSWERS)
        except BadAnnotationError as error:
            problems.append((key, str(error)))
    return Wishes(depends_on, allow, recreate, mode, tuple(problems))


def parse_dependencies(text: str) -> tuple[Dependency, ...]:
    """Read a depends-on value. Raises BadAnnotationError."""
    if len(text) > _LONGEST:
        raise BadAnnotationError(f"longer than {_LONGEST} characters")
    found = set()
    for part in text.split(","):
        match = _REFERENCE.match(part.strip())
        if match is None:
            raise BadAnnotationError("expected Kind.group/name, separated by commas")
        kind, group, place = match.groups()
        names = place.split("/")[1:]
        found.add(Dependency(group[1:], kind, names[0] if len(names) == 2 else "", names[-1]))
    return tuple(sorted(found))


def _one_of(text: str, words: Sequence[str]) -> str:
    if text not in words:
        raise BadAnnotationError(f"expected {', '.join(words[:-1])} or {words[-1]}")
    return text


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise BadAnnotationError('expected "true" or "false"')
    return text == "true"
