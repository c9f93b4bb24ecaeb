"""One YAML document from libyaml's events to a JSON value, with lines and findings.

Own builder instead of a YAML library's: none reads values as kubectl does, none refuses duplicate keys with both lines,
and all share structure between aliases, so that a few hundred bytes become gigabytes at the first copy.
An error inside a document does not stop the reading: all of them are found in one run, and the document is then lost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from yaml.events import (
    AliasEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
)

from gitops.manifests import codes, scalars
from gitops.manifests.canonical import copy_json, same_json
from gitops.manifests.lines import ROOT, step
from gitops.model.catalogue import CATALOGUE, finding
from gitops.model.findings import Finding, Origin, Severity

_STR_TAG = "tag:yaml.org,2002:str"
_MAP_TAG = "tag:yaml.org,2002:map"
_SEQ_TAG = "tag:yaml.org,2002:seq"


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may cost. Far above real manifests (the largest CRDs: 1.6 MB, 27,000 values, 36 levels)."""

    file_bytes: int = 4 * 1024 * 1024
    nodes: int = 300_000  # keys, values and containers of a file, aliases counted as often as they are used
    depth: int = 200  # below Python's recursion limit with room for every later walk
    findings: int = 100  # of one file


DEFAULT_LIMITS = Limits()


class UnreadableError(Exception):
    """The rest of the file cannot be read; the finding is in FileState.findings."""


class FileState:
    """What the documents of one file share: the budget of nodes, and the findings."""

    def __init__(self, file: str, limits: Limits) -> None:
        self.file = file
        self.limits = limits
        self.nodes_left = limits.nodes
        self.findings: list[Finding] = []

    def add(self, code: str, message: str, *, line: int, path: tuple[str | int, ...] = ()) -> None:
        """Record a finding. Raises UnreadableError when there are too many."""
        if len(self.findings) >= self.limits.findings:
            code, message, path = codes.TOO_MANY_FINDINGS, "further errors are not listed", ()
        self.findings.append(finding(code, message, Origin(self.file, line), path=path))
        if code == codes.TOO_MANY_FINDINGS:
            raise UnreadableError


@dataclass(frozen=True, slots=True)
class _Anchor:
    value: Any
    cost: int  # nodes
    height: int  # levels of containers below it


def line_of(event: Any) -> int:
    """Line of an event, from 1."""
    line: int = event.start_mark.line + 1
    return line


class DocumentBuilder:
    """Builds one document. `lost` tells afterwards that an error was found, so that the value must not be used."""

    # Events are Any: the library's stubs know neither tags nor anchors, and marks may be None for them.

    def __init__(self, state: FileState, next_event: Callable[[], Any], index: int) -> None:
        self._state = state
        self._next = next_event
        self._index = index
        self._path: list[str | int] = []
        self._anchors: dict[str, _Anchor | None] = {}  # None while it is being built
        self._depth = 0
        self._deepest = 0
        self._from_aliases = 0
        self._started_with = state.nodes_left
        self.lost = False
        self.lines: dict[int, int] = {}
        self.texts: dict[int, str] = {}
        self.line = 1

    def build(self, event: Any) -> Any:
        """The value that starts with the event. Raises UnreadableError, and yaml.YAMLError for bad syntax."""
        self.line = line_of(event)
        value = self._node(event, ROOT, self.line)
        self._check_alias_share()
        return value

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _node(self, event: Any, at: int, line: int) -> Any:
        """A value. `at` is its path's hash, `line` where its key (or it, in a list) stands."""
        self._spend(1, line)
        kind = type(event)
        value: Any
        if kind is ScalarEvent:
            value = self._scalar(event, at, line)
            if event.anchor:
                self._anchors[event.anchor] = _Anchor(value, 1, 0)
            return value
        if kind is AliasEvent:
            return self._alias(event, line)
        if event.tag and event.tag != (_MAP_TAG if kind is MappingStartEvent else _SEQ_TAG):
            self._refuse_tag(event.tag, line)
        anchor: str | None = event.anchor
        if anchor:
            self._anchors[anchor] = None
            left, deepest = self._state.nodes_left, self._deepest
            self._deepest = self._depth
        self._enter(line)
        value = self._mapping(at, line) if kind is MappingStartEvent else self._sequence(at, line)
        self._depth -= 1
        if anchor:
            cost, height = left - self._state.nodes_left + 1, self._deepest - self._depth
            self._anchors[anchor] = _Anchor(value, cost, height)
            self._deepest = max(deepest, self._deepest)
        return value

    def _mapping(self, at: int, line: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merges: list[tuple[int, Any, frozenset[str]]] = []
        key_lines: dict[str, int] = {}
        next_event, lines, path, state = self._next, self.lines, self._path, self._state
        prefix = crc32(b"\0", at)  # see lines.step(), written out here: this is the hottest loop
        while True:
            event = next_event()
            if type(event) is MappingEndEvent:
                break
            key_line = event.start_mark.line + 1
            state.nodes_left -= 1  # checked when the value is counted
            if type(event) is ScalarEvent and event.value == "<<" and event.implicit[0]:
                path.append("<<")
                if merges:
                    self._duplicate("<<", merges[0][0], key_line)
                merges.append((key_line, self._node(next_event(), step(at, "<<"), key_line), frozenset(result)))
                path.pop()
                continue
            key = self._key(event, key_line)
            child = crc32(key.encode(), prefix)
            path.append(key)
            if key in key_lines:
                self._duplicate(key, key_lines[key], key_line)
                self._node(next_event(), child, key_line)
            else:
                key_lines[key] = key_line
                if key_line != line:
                    lines[child] = key_line
                result[key] = self._node(next_event(), child, key_line)
            path.pop()
        for key_line, merged, before in merges:
            self._merge(result, merged, before, at=at, line=key_line)
        return result

    def _sequence(self, at: int, line: int) -> list[Any]:
        result: list[Any] = []
        next_event, path = self._next, self._path
        prefix = crc32(b"\1", at)
        position = 0
        while True:
            event = next_event()
            if type(event) is SequenceEndEvent:
                return result
            item_line = event.start_mark.line + 1
            child = crc32(b"%d" % position, prefix)
            if item_line != line:
                self.lines[child] = item_line
            path.append(position)
            result.append(self._node(event, child, item_line))
            path.pop()
            position += 1

    def _scalar(self, event: Any, at: int, line: int) -> scalars.Scalar:
        text: str = event.value
        tag = event.tag
        if tag:
            if tag != _STR_TAG:
                self._refuse_tag(tag, line)
            return text
        if not event.implicit[0] or (text and text[0] not in scalars.TYPED_FIRST):
            return text
        try:
            value = scalars.resolve(text)
        except scalars.RefusedScalar as refused:
            self._error(refused.code, str(refused), line)
            return text
        if value is not None and not isinstance(value, str):
            if text in scalars.AMBIGUOUS:
                word = "true" if value else "false"
                self._error(codes.AMBIGUOUS_BOOLEAN, f"`{text}` is read as {word}, as kubectl does", line)
            if scalars.printed(value) != text:
                self.texts[at] = text
        return value

    def _key(self, event: Any, line: int) -> str:
        if type(event) is AliasEvent:
            found = self._anchors.get(str(event.anchor))
            if found is not None and isinstance(found.value, str):
                return found.value
            self._error(codes.COMPLEX_KEY, f"the alias *{event.anchor} is used as a key but is not text", line)
            return f"*{event.anchor}"
        if type(event) is not ScalarEvent:
            template = type(event) is MappingStartEvent and event.flow_style
            why = " (a template, `{{ … }}`, must be rendered first)" if template else ""
            self._error(codes.COMPLEX_KEY, f"a map or a list is used as a key{why}", line)
            self._node(event, ROOT, line)
            return "?"
        text: str = event.value
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(text, 1, 0)
        if event.tag:
            if event.tag != _STR_TAG:
                self._refuse_tag(event.tag, line)
        elif event.implicit[0] and (not text or text[0] in scalars.TYPED_FIRST):
            self._check_plain_key(text, line)
        return text

    def _check_plain_key(self, text: str, line: int) -> None:
        try:
            value = scalars.resolve(text)
        except scalars.RefusedScalar as refused:
            self._error(refused.code, f"as a key, {refused}", line)
            return
        if not isinstance(value, str):
            what = "null" if value is None else scalars.described(value)
            self._error(codes.KEY_NOT_TEXT, f"the key {scalars.shown(text)} is {what}, not text", line)

    # -- aliases and merge keys --------------------------------------------------------------------------------------

    def _alias(self, event: Any, line: int) -> Any:
        name: str = event.anchor
        if name not in self._anchors:
            self._error(codes.UNKNOWN_ALIAS, f"no anchor &{name} before the alias *{name} in this document", line)
            return None
        anchor = self._anchors[name]
        if anchor is None:
            self._error(codes.CYCLE, f"the anchor &{name} contains itself", line)
            return None
        self._spend(anchor.cost, line)
        self._from_aliases += anchor.cost
        if self._depth + anchor.height > self._state.limits.depth:
            self._too_deep(line)
        self._deepest = max(self._deepest, self._depth + anchor.height)
        return copy_json(anchor.value)

    def _merge(self, target: dict[str, Any], merged: Any, before: frozenset[str], *, at: int, line: int) -> None:
        sources = merged if isinstance(merged, list) else [merged]
        for source in sources:
            if not isinstance(source, dict):
                self._error(codes.BAD_MERGE, "`<<` is not given a map", line)
                continue
            for key, value in source.items():
                if key not in target:
                    target[key] = value
                    self.lines[step(at, key)] = line
                elif key in before and not same_json(target[key], value):
                    self._error(
                        codes.MERGE_ORDER, f"`<<` follows the key {scalars.shown(key)}, which it also sets", line
                    )

    def _check_alias_share(self) -> None:
        """go-yaml's rule against expansion bombs (decode.go, allowedAliasRatio): what passes here passes kubectl."""
        total = self._started_with - self._state.nodes_left
        if self._from_aliases > 100 and total > 1000 and self._from_aliases > 0.99 * total:
            self._error(codes.TOO_MANY_NODES, "more than 99 % of the document comes from aliases", self.line)

    # -- limits and findings -----------------------------------------------------------------------------------------

    def _spend(self, nodes: int, line: int) -> None:
        self._state.nodes_left -= nodes
        if self._state.nodes_left < 0:
            self._error(codes.TOO_MANY_NODES, f"more than {self._state.limits.nodes} values, aliases expanded", line)
            raise UnreadableError

    def _enter(self, line: int) -> None:
        self._depth += 1
        if self._depth > self._deepest:
            self._deepest = self._depth
            if self._depth > self._state.limits.depth:
                self._too_deep(line)

    def _too_deep(self, line: int) -> None:
        self._error(codes.TOO_DEEP, f"more than {self._state.limits.depth} levels", line)
        raise UnreadableError

    def _duplicate(self, key: str, first: int, second: int) -> None:
        self._error(
            codes.DUPLICATE_KEY, f"the key {scalars.shown(key)} is written on line {first} and line {second}", second
        )

    def _refuse_tag(self, tag: str, line: int) -> None:
        short = tag.replace("tag:yaml.org,2002:", "!!", 1)
        self._error(codes.TAG, f"the tag {scalars.shown(short)} is not supported", line)

    def _error(self, code: str, message: str, line: int) -> None:
        if CATALOGUE[code].severity is Severity.ERROR:
            self.lost = True
        self._state.add(code, f"document {self._index}: {message}", line=line, path=tuple(self._path[:64]))
