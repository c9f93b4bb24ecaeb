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

from gitops.manifests import codes, dialect, scalars
from gitops.manifests.canonical import copy_json, same_json
from gitops.manifests.file_state import FileState, UnreadableError
from gitops.manifests.lines import ROOT, step
from gitops.model.catalogue import CATALOGUE
from gitops.model.findings import Severity

_STR_TAG = "tag:yaml.org,2002:str"
_MAP_TAG = "tag:yaml.org,2002:map"
_SEQ_TAG = "tag:yaml.org,2002:seq"


@dataclass(slots=True)
class _Anchor:
    at: int  # hash of the path where it stands
    value: Any = None
    cost: int = 0  # nodes; 0 while it is being built
    height: int = 0  # levels of containers below it


@dataclass(frozen=True, slots=True)
class _Merge:
    """A merge key: its line, the keys before it, and its maps with the hashes of their paths."""

    line: int
    before: frozenset[str]
    sources: list[tuple[Any, int]]


def line_of(event: Any) -> int:
    """Line of an event, from 1."""
    line: int = event.start_mark.line + 1
    return line


class DocumentBuilder:
    """Builds one document. `lost` tells afterwards that an error was found, so that the value must not be used."""

    # Events are Any: the library's stubs know neither tags nor anchors, and marks may be None for them.

    def __init__(self, state: FileState, next_event: Callable[[], Any], index: int, *, doubtful: str = "") -> None:
        """`doubtful` is the text of the file if dialect.refused() shall look at its scalars."""
        self._state = state
        self._next = next_event
        self._index = index
        self._doubtful = doubtful
        self._path: list[str | int] = []
        self._anchors: dict[str, _Anchor] = {}
        self._flow = 0  # levels of flow collections around
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
        return self._node(event, ROOT, self.line)

    # -- nodes -------------------------------------------------------------------------------------------------------

    def _node(self, event: Any, at: int, line: int) -> Any:
        """A value. `at` is its path's hash, `line` where its key (or it, in a list) stands."""
        self._spend(1, line)
        kind = type(event)
        value: Any
        if kind is ScalarEvent:
            value = self._scalar(event, at, line)
            if event.anchor:
                self._anchors[event.anchor] = _Anchor(at, value, 1)
            return value
        if kind is AliasEvent:
            return self._alias(event, at, line)
        if event.tag and event.tag != (_MAP_TAG if kind is MappingStartEvent else _SEQ_TAG):
            self._refuse_tag(event.tag, line)
        if event.anchor:
            return self._anchored(event, at, line)
        return self._container(event, at, line)

    def _container(self, event: Any, at: int, line: int) -> Any:
        self._depth += 1
        if self._depth > self._deepest:
            self._deepest = self._depth
            self._check_depth(line)
        if self._doubtful:
            self._flow += event.flow_style
        value = self._mapping(at, line) if type(event) is MappingStartEvent else self._sequence(at, line)
        if self._doubtful:
            self._flow -= event.flow_style
        self._depth -= 1
        return value

    def _anchored(self, event: Any, at: int, line: int) -> Any:
        """A container with an anchor, which is known from its start on: the same name may be used again inside."""
        anchor = self._anchors[event.anchor] = _Anchor(at)
        left, deepest = self._state.nodes_left, self._deepest
        self._deepest = self._depth
        anchor.value = self._container(event, at, line)
        anchor.cost, anchor.height = left - self._state.nodes_left + 1, self._deepest - self._depth
        self._deepest = max(deepest, self._deepest)
        return anchor.value

    def _mapping(self, at: int, line: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        merges: list[_Merge] = []
        key_lines: dict[str, int] = {}
        next_event, lines, path, state = self._next, self.lines, self._path, self._state
        prefix = crc32(b"\0", at)  # see lines.step(), written out here: this is the hottest loop
        while True:
            event = next_event()
            if type(event) is MappingEndEvent:
                break
            key_line = event.start_mark.line + 1
            if type(event) is ScalarEvent and event.value == "<<" and event.implicit[0]:
                path.append("<<")
                if merges:
                    self._duplicate("<<", merges[0].line, key_line)
                merges.append(self._read_merge(frozenset(result), step(at, "<<"), key_line))
                path.pop()
                continue
            state.nodes_left -= 1  # checked when the value is counted
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
        for merge in merges:
            self._merge(result, merge, at)
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
        if self._doubtful:
            self._check_dialect(event, line)
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
            key = self._alias(event, ROOT, line)
            if isinstance(key, str):
                return key
            if event.anchor in self._anchors:
                code = codes.COMPLEX_KEY if isinstance(key, (dict, list)) else codes.KEY_NOT_TEXT
                self._error(code, f"the alias *{event.anchor} is used as a key but is not text", line)
            return f"*{event.anchor}"
        if type(event) is not ScalarEvent:
            template = type(event) is MappingStartEvent and event.flow_style
            why = " (a template, `{{ … }}`, must be rendered first)" if template else ""
            self._error(codes.COMPLEX_KEY, f"a map or a list is used as a key{why}", line)
            self._node(event, ROOT, line)
            return "?"
        text: str = event.value
        if self._doubtful:
            self._check_dialect(event, line)
        if event.anchor:
            self._anchors[event.anchor] = _Anchor(ROOT, text, 1)
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

    def _alias(self, event: Any, at: int, line: int) -> Any:
        name: str = event.anchor
        anchor = self._anchors.get(name)
        if anchor is None:
            self._error(codes.UNKNOWN_ALIAS, f"no anchor &{name} before the alias *{name} in this document", line)
            return None
        if not anchor.cost:
            self._error(codes.CYCLE, f"the anchor &{name} contains itself", line)
            return None
        self._pay_alias(anchor, line)
        self._deepest = max(self._deepest, self._depth + anchor.height)
        self._check_depth(line)
        self._repeat_texts(anchor.value, anchor.at, at)
        return copy_json(anchor.value)

    def _pay_alias(self, anchor: _Anchor, line: int) -> None:
        """Count what an alias repeats: values, characters, and its share of the document.

        The share is go-yaml's rule against expansion bombs (decode.go, allowedAliasRatio: 99 %), a little stricter
        because a list of merged maps counts one value more here: what passes here passes kubectl.
        """
        self._spend(anchor.cost, line)
        self._state.characters_left -= _characters(anchor.value)
        if self._state.characters_left < 0:
            limit = self._state.limits.alias_characters
            self._error(codes.TOO_MANY_NODES, f"aliases repeat more than {limit} characters of text", line)
            raise UnreadableError
        self._from_aliases += anchor.cost
        total = self._started_with - self._state.nodes_left
        if self._from_aliases > 100 and total > 1000 and self._from_aliases > 0.98 * total:
            self._error(codes.TOO_MANY_NODES, "more than 98 % of the document comes from aliases", line)
            raise UnreadableError

    def _repeat_texts(self, value: Any, there: int, here: int) -> None:
        """The author's words for numbers and booleans, at another place where an alias or a merge puts them."""
        if not self.texts:
            return
        if there in self.texts:
            self.texts[here] = self.texts[there]
        children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for segment, child in children:
            self._repeat_texts(child, step(there, segment), step(here, segment))

    def _read_merge(self, before: frozenset[str], at: int, line: int) -> _Merge:
        event = self._next()
        value = self._node(event, at, line)
        if isinstance(value, list) and type(event) is not AliasEvent:
            return _Merge(line, before, [(source, step(at, position)) for position, source in enumerate(value)])
        return _Merge(line, before, [(value, at)])

    def _merge(self, target: dict[str, Any], merge: _Merge, at: int) -> None:
        for source, there in merge.sources:
            if not isinstance(source, dict):
                self._error(codes.BAD_MERGE, "`<<` is not given a map", merge.line)
                continue
            for key, value in source.items():
                if key not in target:
                    target[key] = value
                    here = step(at, key)
                    self.lines[here] = merge.line
                    self._repeat_texts(value, step(there, key), here)
                elif key in merge.before and not same_json(target[key], value):
                    message = f"`<<` follows the key {scalars.shown(key)}, which it also sets"
                    self._error(codes.MERGE_ORDER, message, merge.line)

    # -- limits and findings -----------------------------------------------------------------------------------------

    def _spend(self, nodes: int, line: int) -> None:
        self._state.nodes_left -= nodes
        if self._state.nodes_left < 0:
            self._error(codes.TOO_MANY_NODES, f"more than {self._state.limits.nodes} values, aliases expanded", line)
            raise UnreadableError

    def _check_depth(self, line: int) -> None:
        if self._deepest > self._state.limits.depth:
            self._error(codes.TOO_DEEP, f"more than {self._state.limits.depth} levels", line)
            raise UnreadableError

    def _check_dialect(self, event: Any, line: int) -> None:
        if problem := dialect.refused(event, self._doubtful, in_flow=self._flow > 0):
            self._error(codes.KUBECTL_REFUSES, problem, line)

    def _duplicate(self, key: str, first: int, second: int) -> None:
        lines = f"line {self._state.editor_line(first)} and line {self._state.editor_line(second)}"
        self._error(codes.DUPLICATE_KEY, f"the key {scalars.shown(key)} is written on {lines}", second)

    def _refuse_tag(self, tag: str, line: int) -> None:
        short = tag.replace("tag:yaml.org,2002:", "!!", 1)
        self._error(codes.TAG, f"the tag {scalars.shown(short)} is not supported", line)

    def _error(self, code: str, message: str, line: int) -> None:
        if CATALOGUE[code].severity is Severity.ERROR:
            self.lost = True
        line = self._state.editor_line(line)
        self._state.add(code, f"document {self._index}: {message}", line=line, path=tuple(self._path))


def _characters(value: Any) -> int:
    """Of all texts and keys in a value."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _characters(child) for key, child in value.items())
    return sum(map(_characters, value)) if isinstance(value, list) else 0
