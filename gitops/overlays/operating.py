"""A JSON patch over an object. The jsonpatch library decides the result; here are the reasons for a refusal, in words
that hold no values, the bounds, and who set what afterwards.

Operations after a bad one are still tried, so that all bad ones are told at once; a failed test ends the patch.
"""

from __future__ import annotations

from typing import Any

import jsonpatch
from jsonpointer import JsonPointerException

from gitops.manifests.canonical import canonical_json
from gitops.manifests.file_state import DEFAULT_LIMITS
from gitops.manifests.lines import Path
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.overlays import codes
from gitops.overlays.json_patches import JsonPatchSource, Operation
from gitops.overlays.overriding import ABSENT, State
from gitops.overlays.patches import MARKS, RESERVED_PREFIXES, content_problems
from gitops.overlays.pointers import END, MissingError, Place, Pointer, PointerError, locate, parse, shown, written
from gitops.overlays.provenance import place_of
from gitops.overlays.traces import Trace, trace_of

MAX_COPIED = 1024 * 1024
"""Bytes that all copy and move operations on one object may put elsewhere: each copy may double it. (The API server has
such a bound too: JSONPatchMaxCopyBytes.)"""


class _RefusedError(Exception):
    """An operation that cannot be applied."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def operate_on(state: State, source: JsonPatchSource, number: int) -> list[Finding]:
    """Apply the operations in order. With findings the state is unusable."""
    findings: list[Finding] = []
    for operation in source.operations:
        origin = source.origin_of(operation)
        try:
            _Operating(state, source, number, operation, origin).apply()
        except _RefusedError as refused:
            findings.append(finding(refused.code, f"{operation}: {refused}", origin))
            if operation.op == "test" or refused.code == codes.TOO_LARGE:
                break
        state.watch.after_operation(state.body, operation, origin, number)
    return findings


class _Operating:
    """One operation on one object. Its methods raise _RefusedError."""

    def __init__(
        self, state: State, source: JsonPatchSource, number: int, operation: Operation, origin: Origin
    ) -> None:
        self.state = state
        self.source = source
        self.number = number
        self.operation = operation
        self.origin = origin

    def apply(self) -> None:
        whole = self.operation.path in MARKS or self.operation.source in MARKS
        before = _reserved(self.state.body) if whole else {}
        self._dispatch()
        for field, marks in _reserved(self.state.body).items() if whole else ():
            if marks != before[field]:
                what = "changes reserved keys of" if isinstance(marks, dict) else "leaves no map in"
                raise _RefusedError(codes.RESERVED, f"{what} metadata.{field}")

    def _dispatch(self) -> None:
        match self.operation.op:
            case "test":
                self._test()
            case "remove":
                self._take(self.operation.path)
            case "copy":
                self._copy()
            case "move":
                self._move()
            case _:
                value = self.operation.plain["value"]
                provenance = self.source.provenance.at((self.operation.number - 1, "value"))
                self._put(value, trace_of(value, provenance, self.number))

    def _test(self) -> None:
        try:
            self._locate(self.operation.path)
            self._library(self.operation.plain)
        except (_RefusedError, jsonpatch.JsonPatchTestFailed) as failed:
            why = str(failed) if isinstance(failed, _RefusedError) else "the value is another one"
            raise _RefusedError(codes.TEST_FAILED, f"the test fails, {why}") from None

    def _copy(self) -> None:
        taken = self._locate(self.operation.source)
        self._spend(taken.value)
        self._put(taken.value, self._elsewhere(self._trace(taken.path)))

    def _move(self) -> None:
        """Functionally identical to a remove, followed immediately by an add (RFC 6902, 4.4): the target of a move
        inside one list is a position in the list without the item."""
        path, source = self.operation.path, self.operation.source
        taken = self._locate(source)
        if path == source:
            return
        if path[: len(source)] == source:
            raise _RefusedError(codes.BAD_POINTER, "a value cannot be moved into itself")
        self._spend(taken.value)
        value, trace = self._take(source)
        self._put(value, self._elsewhere(trace))

    def _take(self, pointer: Pointer) -> tuple[Any, Trace]:
        """Remove a value."""
        place = self._locate(pointer)
        value, parent, key = place.value, self._trace(place.path[:-1]), place.key
        self._library({"op": "remove", "path": written(pointer)})
        old = parent.take(key, place_of(self.origin)) if isinstance(key, str) else parent.items.pop(key)
        self._override(place.path, value, old, ABSENT)
        return value, old

    def _put(self, value: Any, trace: Trace) -> None:
        """Add a value, or put it in the place of another."""
        pointer, replaces = self.operation.path, self.operation.op == "replace"
        place = self._locate(pointer, adding=not replaces)
        if len(pointer) + _depth(value) > DEFAULT_LIMITS.depth:
            raise _RefusedError(codes.TOO_LARGE, f"the object gets more than {DEFAULT_LIMITS.depth} levels")
        if problem := next(content_problems(value, pointer), None):
            raise _RefusedError(problem[0], problem[2])
        parent, key = self._trace(place.path[:-1]), place.key
        old = parent.fields.get(key) if isinstance(key, str) else parent.items[key] if replaces else None
        before = ABSENT if old is None else place.value
        self._library({"op": "replace" if replaces else "add", "path": written(pointer), "value": value})
        if isinstance(key, str):
            parent.put(key, trace)
        elif replaces:
            parent.items[key] = trace
        else:
            parent.items.insert(key, trace)
        if old is not None:
            self._override(place.path, before, old, value)

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

    def _library(self, operation: dict[str, Any]) -> None:
        """Let the library change the object; it copies values. Its own words hold values and are not passed on."""
        try:
            jsonpatch.apply_patch(self.state.body, [operation], in_place=True)
        except jsonpatch.JsonPatchTestFailed:
            raise
        except (jsonpatch.JsonPatchException, JsonPointerException) as error:
            raise _RefusedError(codes.NOTHING_THERE, f"cannot be applied ({type(error).__name__})") from None

    def _spend(self, value: Any) -> None:
        self.state.copied += len(canonical_json(value))
        if self.state.copied > MAX_COPIED:
            message = f"copies and moves in the object come to more than {MAX_COPIED} bytes"
            raise _RefusedError(codes.TOO_LARGE, message)

    def _trace(self, path: Path) -> Trace:
        trace = self.state.trace
        for segment in path:
            trace = trace.fields[segment] if isinstance(segment, str) else trace.items[segment]
        return trace

    def _elsewhere(self, trace: Trace) -> Trace:
        """What is copied or moved comes from the operation, whoever wrote it first."""
        return trace.moved(place_of(self.origin), self.number)

    def _override(self, path: Path, before: Any, old: Trace, after: Any) -> None:
        self.state.override(path, before=before, trace=old, after=after, origin=self.origin, source=self.number)


def _reserved(body: dict[str, Any]) -> dict[str, dict[str, Any] | bool]:
    """What of an object's labels and annotations no overlay may change; False for what is no map. Single keys are out
    of reach already (json_patches.py), so this matters only where the whole map is replaced or removed."""
    found: dict[str, dict[str, Any] | bool] = {}
    for _, field in MARKS:
        marks = body["metadata"].get(field, {})
        is_map = isinstance(marks, dict)
        found[field] = is_map and {k: v for k, v in marks.items() if k.startswith(RESERVED_PREFIXES)}
    return found


def _depth(value: Any) -> int:
    """Levels of maps and lists in a value."""
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if children is None else 1 + max(map(_depth, children), default=0)
