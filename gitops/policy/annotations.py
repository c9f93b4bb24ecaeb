"""Labels and annotations with a meaning for the reconciler: which of them people may write, and what they say."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from gitops.overlays.patches import RESERVED_PREFIXES

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
IGNORE_DRIFT = "gitops/ignore-drift"
"""Paths of fields that are others' once the object is made (gitops/policy/ignoring.py), separated by commas. Sent, so
that whoever looks at the live object sees it."""

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
            elif key == IGNORE_DRIFT:
                parse_paths(annotations[key])
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


def parse_paths(text: str) -> tuple[tuple[str, ...], ...]:
    """Read an ignore-drift value: the parts of each path. A path is a JSON pointer (RFC 6901) in which `*` is every key
    of a map or item of a list, and another part the `name` of an item. Raises BadAnnotationError."""
    if len(text) > _LONGEST:
        raise BadAnnotationError(f"longer than {_LONGEST} characters")
    return tuple(_parts(part.strip()) for part in text.split(","))


def _parts(path: str) -> tuple[str, ...]:
    if not path.startswith("/") or "" in path.split("/")[1:]:
        raise BadAnnotationError("expected paths such as /spec/replicas, separated by commas")
    parts = tuple(part.replace("~1", "/").replace("~0", "~") for part in path.split("/")[1:])
    if parts[0] in ("*", "apiVersion", "kind", "status") or (parts[0] == "metadata" and not _is_of_people(parts[1:])):
        raise BadAnnotationError(f"{path} tells what the object is, or whose")
    if len(parts) > 2 and parts[-1] == "name":
        raise BadAnnotationError(f"{path} tells items of a list apart")
    return parts


def _is_of_people(parts: Sequence[str]) -> bool:
    """Whether a path below metadata is about one label or annotation that is not ours."""
    if len(parts) != 2 or parts[0] not in ("labels", "annotations"):
        return False
    return parts[1] != "*" and not parts[1].startswith(RESERVED_PREFIXES)


def _truth(text: str) -> bool:
    if text not in ("true", "false"):
        raise BadAnnotationError('expected "true" or "false"')
    return text == "true"
