"""JSON patches (RFC 6902) as they are written: operations read strictly, and what none of them may touch.

The RFC lets a reader pass over members it does not know; here they are errors, because `val:` is a typing error and no
extension. Checked once for each patch: nothing here depends on the base.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from gitops.manifests.lines import Path
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.overlays import codes
from gitops.overlays.patches import (
    IDENTITY_FIELDS,
    MARKS,
    OWNERSHIP_FIELDS,
    RESERVED_PREFIXES,
    Target,
    content_problems,
)
from gitops.overlays.pointers import Pointer, PointerError, parse, shown
from gitops.overlays.provenance import Provenance

MAX_OPERATIONS = 1000
"""Of one patch, in a file or in line."""

_MEMBERS: dict[str, tuple[str, ...]] = {
    "add": ("path", "value"),
    "replace": ("path", "value"),
    "test": ("path", "value"),
    "remove": ("path",),
    "move": ("from", "path"),
    "copy": ("from", "path"),
}
"""What each operation has beside `op`, all of it mandatory (RFC 6902, section 4)."""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `number` counts from 1; `source` is `from` of a move or copy, () for the others; `plain` is the
    operation as written."""

    number: int
    op: str
    path: Pointer
    source: Pointer
    plain: dict[str, Any]

    @property
    def changes(self) -> bool:
        return self.op != "test"

    def __str__(self) -> str:
        return f"operation {self.number} ({self.op} {shown(self.plain['path'])})"


@dataclass(frozen=True, slots=True)
class JsonPatchSource:
    """A JSON patch with the origins of its values; the paths of the provenance start at the list of operations."""

    operations: tuple[Operation, ...]
    provenance: Provenance

    def origin_of(self, operation: Operation) -> Origin:
        return self.provenance.origin_of((operation.number - 1,))


@dataclass(frozen=True, slots=True)
class _Problem:
    code: str
    message: str
    path: Path = ()  # in the operation


def read_operations(body: Any, provenance: Provenance, target: Target) -> tuple[JsonPatchSource, tuple[Finding, ...]]:
    """The operations of a list, and one finding for each that is malformed or touches what no overlay may touch.

    `body` is whatever a file or an entry holds. The patch is for use only when there are no findings.
    """
    if not isinstance(body, list) or not 0 < len(body) <= MAX_OPERATIONS:
        what = f"{len(body)} operations" if isinstance(body, list) else "no list"
        message = f"patch of {target}: expected a list of 1 to {MAX_OPERATIONS} operations, found {what}"
        return JsonPatchSource((), provenance), (finding(codes.NOT_OPERATIONS, message, provenance.origin_of(())),)
    operations: list[Operation] = []
    findings: list[Finding] = []
    for number, item in enumerate(body, 1):
        read = _read(number, item)
        if isinstance(read, Operation):
            operations.append(read)
            continue
        origin = provenance.origin_of((number - 1, *read.path))
        findings.append(finding(read.code, f"patch of {target}: operation {number}: {read.message}", origin))
    return JsonPatchSource(tuple(operations), provenance), tuple(findings)


def _read(number: int, item: Any) -> Operation | _Problem:
    """An operation, or the first thing that is wrong with it."""
    malformed = next(_form_problems(item), None)
    if malformed is not None:
        return malformed
    pointers: dict[str, Pointer] = {}
    for member in ("path", "from"):
        try:
            pointers[member] = parse(item.get(member, ""))
        except PointerError as error:
            return _Problem(codes.BAD_POINTER, f"bad `{member}`: {error}", (member,))
    operation = Operation(number, item["op"], pointers["path"], pointers["from"], item)
    return next(_reach_problems(operation), operation)


def _form_problems(item: Any) -> Iterator[_Problem]:
    if not isinstance(item, dict):
        yield _Problem(codes.BAD_OPERATION, "not a map")
        return
    op = item.get("op")
    members = _MEMBERS.get(op) if isinstance(op, str) else None
    if members is None:
        what = f"unknown op `{op}`{_guess(op.lower(), _MEMBERS)}" if isinstance(op, str) else "no `op`"
        yield _Problem(codes.BAD_OPERATION, what, ("op",))
        return
    missing = [member for member in members if member not in item]
    for name in item:
        if name != "op" and name not in members:
            yield _Problem(codes.BAD_OPERATION, f"unknown member `{name}`{_guess(name, missing)}", (name,))
    for member in missing:
        yield _Problem(codes.BAD_OPERATION, f"no `{member}`, which {op} needs")
    for member in ("path", "from"):
        if not isinstance(item.get(member, ""), str):
            yield _Problem(codes.BAD_OPERATION, f"`{member}` is not text", (member,))


def _guess(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]}?" if close else ""


def _reach_problems(operation: Operation) -> Iterator[_Problem]:
    """Parts of an object that only the base or the cluster has a say in."""
    if not operation.path:
        yield _Problem(codes.IDENTITY, "the whole object is out of reach", ("path",))
    elif operation.changes:
        yield from _place_problems(operation.path, "path")
        for code, path, message in content_problems(operation.plain.get("value"), operation.path):
            inside = path[len(operation.path) :]
            yield _Problem(code, message, ("value", *inside) if inside else ("path",))
    if operation.op in ("move", "copy"):
        if not operation.source:
            yield _Problem(codes.IDENTITY, "the whole object is out of reach", ("from",))
        elif operation.op == "move":
            yield from _place_problems(operation.source, "from")
            for code, _, message in content_problems(None, operation.source):
                yield _Problem(code, message, ("from",))


def _place_problems(pointer: Pointer, member: str) -> Iterator[_Problem]:
    if pointer[0] in ("apiVersion", "kind") or pointer == ("metadata",):
        yield _Problem(codes.IDENTITY, f"changes {pointer[0]}", (member,))
    elif pointer[0] == "metadata" and pointer[1] in IDENTITY_FIELDS:
        yield _Problem(codes.IDENTITY, f"changes metadata.{pointer[1]}", (member,))
    elif pointer[0] == "metadata" and pointer[1] in OWNERSHIP_FIELDS:
        yield _Problem(codes.OWNERSHIP, f"changes metadata.{pointer[1]}", (member,))
    elif pointer[:2] in MARKS and pointer[2:] and pointer[2].startswith(RESERVED_PREFIXES):
        yield _Problem(codes.RESERVED, f"changes the reserved key {pointer[2]}", (member,))
