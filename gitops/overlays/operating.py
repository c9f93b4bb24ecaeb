"""A JSON patch over an object. The jsonpatch library decides the result; here are the reasons for a refusal, in words
that hold no values, the bounds, and who set what afterwards.

Operations after a bad one are still tried, so that all bad ones are told at once; a failed test ends the patch.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
from jsonpointer import JsonPointerException

from gitops.manifests.canonical import canonical_json, copy_json
from gitops.manifests.file_state import DEFAULT_LIMITS
from gitops.manifests.lines import Path
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.overlays import codes
from gitops.overlays.json_patches import JsonPatchSource, Operation
from gitops.overlays.overriding import ABSENT, State
from gitops.overlays.patches import RESERVED_PREFIXES, content_problems
from gitops.overlays.pointers import END, MissingError, Place, Pointer, PointerError, locate, parse, shown, written
from gitops.overlays.traces import Trace, trace_of

MAX_COPIED = 1024 * 1024
"""Bytes that the copy operations of one patch may add: each may double the object. (The API server bounds the same:
JSONPatchMaxCopyBytes.)"""


class _RefusedError(Exception):
    """An operation that cannot be applied."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def operate_on(state: State, source: JsonPatchSource, number: int) -> list[Finding]:
    """Apply the operations in order. With findings the state is unusable."""
    run = _Run(state, source, number)
    findings: list[Finding] = []
    for operation in source.operations:
        origin = source.origin_of(operation)
        try:
            run.apply(operation, origin)
        except _RefusedError as refused:
            findings.append(finding(refused.code, f"{operation}: {refused}", origin))
            if operation.op == "test" or refused.code == codes.TOO_LARGE:
                break
        state.watch.after_operation(state.body, operation, origin, number)
    return findings


class _Run:
    """One patch over one object."""

    def __init__(self, state: State, source: JsonPatchSource, number: int) -> None:
        self.state = state
        self.source = source
        self.number = number
        self.copies_left = MAX_COPIED

    def apply(self, operation: Operation, origin: Origin) -> None:
        """Raises _RefusedError."""
        reserved = _reserved(self.state.body)
        match operation.op:
            case "test":
                self._test(operation)
            case "remove":
                self._take(operation.path, origin)
            case "add" | "replace":
                value = operation.plain["value"]
                provenance = self.source.provenance.at((operation.number - 1, "value"))
                self._put(operation, value, trace_of(value, provenance, self.number), origin)
            case "copy":
                self._copy(operation, origin)
            case _:
                self._move(operation, origin)
        for field, marks in _reserved(self.state.body).items():
            if marks != reserved[field]:
                what = "changes reserved keys of" if isinstance(marks, dict) else "leaves no map in"
                raise _RefusedError(codes.RESERVED, f"{what} metadata.{field}")

    def _test(self, operation: Operation) -> None:
        try:
            self._locate(operation.path)
            self._run(operation.plain)
        except (_RefusedError, jsonpatch.JsonPatchTestFailed) as failed:
            why = str(failed) if isinstance(failed, _RefusedError) else "the value is another one"
            raise _RefusedError(codes.TEST_FAILED, f"the test fails, {why}") from None

    def _copy(self, operation: Operation, origin: Origin) -> None:
        taken = self._locate(operation.source)
        self.copies_left -= len(canonical_json(taken.value))
        if self.copies_left < 0:
            message = f"the copies of one patch add more than {MAX_COPIED} bytes"
            raise _RefusedError(codes.TOO_LARGE, message)
        trace = self._trace(taken.path).moved(origin, self.number)
        self._put(operation, copy_json(taken.value), trace, origin)

    def _move(self, operation: Operation, origin: Origin) -> None:
        """Functionally identical to a remove, followed immediately by an add (RFC 6902, 4.4): the target of a move
        inside one list is a position in the list without the item."""
        path, source = operation.path, operation.source
        if path == source:
            self._locate(path)
            return
        if path[: len(source)] == source:
            raise _RefusedError(codes.BAD_POINTER, "a value cannot be moved into itself")
        value, trace = self._take(source, origin)
        self._put(operation, value, trace.moved(origin, self.number), origin)

    def _take(self, pointer: Pointer, origin: Origin) -> tuple[Any, Trace]:
        """Remove a value."""
        place = self._locate(pointer)
        value, parent = place.value, self._trace(place.path[:-1])
        self._run({"op": "remove", "path": written(pointer)})
        if isinstance(place.key, str):
            trace = parent.fields.pop(place.key)
            parent.gone[place.key] = origin
        else:
            trace = parent.items.pop(place.key)
        self._override(place.path, value, trace, ABSENT, origin)
        return value, trace

    def _put(self, operation: Operation, value: Any, trace: Trace, origin: Origin) -> None:
        """Add a value, or put it in the place of another."""
        place = self._locate(operation.path, adding=operation.op != "replace")
        if len(operation.path) + _depth(value) > DEFAULT_LIMITS.depth:
            raise _RefusedError(codes.TOO_LARGE, f"the object gets more than {DEFAULT_LIMITS.depth} levels")
        if problem := next(content_problems(value, operation.path), None):
            raise _RefusedError(problem[0], problem[2])
        parent, key = self._trace(place.path[:-1]), place.key
        over = isinstance(key, str) or operation.op == "replace"
        before = place.value if over and place.there else ABSENT
        op = "replace" if operation.op == "replace" else "add"
        self._run({"op": op, "path": operation.plain["path"], "value": value})
        if isinstance(key, str):
            old = parent.fields.get(key)
            parent.fields[key] = trace
            parent.gone.pop(key, None)
        elif over:
            old, parent.items[key] = parent.items[key], trace
        else:
            old = None
            parent.items.insert(key, trace)
        if old is not None:
            self._override(place.path, before, old, value, origin)

    def _locate(self, pointer: Pointer, *, adding: bool = False) -> Place:
        try:
            return locate(self.state.body, pointer, adding=adding)
        except MissingError as missing:
            if not (adding and missing.parent):
                raise _RefusedError(codes.NOTHING_THERE, str(missing)) from None
            following = pointer[len(parse(missing.at))]
            empty = "[]" if following == END or following.isdecimal() else "{}"
            message = f"{missing}; add it first: {{op: add, path: {shown(missing.at)}, value: {empty}}}"
            raise _RefusedError(codes.PARENT_MISSING, message) from None
        except PointerError as error:
            raise _RefusedError(codes.BAD_POINTER, str(error)) from None

    def _run(self, plain: dict[str, Any]) -> None:
        """Let the library do it. Its own words hold values of the object and are not passed on."""
        try:
            jsonpatch.apply_patch(self.state.body, [plain], in_place=True)
        except jsonpatch.JsonPatchTestFailed:
            raise
        except (jsonpatch.JsonPatchException, JsonPointerException) as error:
            raise _RefusedError(codes.NOTHING_THERE, f"cannot be applied ({type(error).__name__})") from None

    def _trace(self, path: Path) -> Trace:
        trace = self.state.trace
        for segment in path:
            trace = trace.fields[segment] if isinstance(segment, str) else trace.items[segment]
        return trace

    def _override(self, path: Path, before: Any, old: Trace, after: Any, origin: Origin) -> None:
        self.state.override(path, before=before, trace=old, after=after, origin=origin, source=self.number)


def _reserved(body: dict[str, Any]) -> dict[str, dict[str, Any] | bool]:
    """What of an object's labels and annotations no overlay may change; False for what is no map."""
    found: dict[str, dict[str, Any] | bool] = {}
    metadata = body.get("metadata", {})
    for field in ("labels", "annotations"):
        marks = metadata.get(field, {})
        is_map = isinstance(marks, dict)
        found[field] = is_map and {k: v for k, v in marks.items() if k.startswith(RESERVED_PREFIXES)}
    return found


def _depth(value: Any) -> int:
    """Levels of maps and lists in a value."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(_depth, children), default=0)
