"""Where kubectl reads a text otherwise than libyaml, with which we read.

kubectl (k8s.io/apimachinery/pkg/util/yaml/decoder.go) reads a text that starts with `{` as JSON as long as it is JSON,
cuts all others at lines that start with `---`, ends a last line that has no line feed, and gives each piece to go-yaml
v2, whose scanner is older than libyaml's. What it refuses is refused here, so that nobody applies with us what the
next person cannot apply by hand.
"""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from yaml.events import ScalarEvent

from gitops.manifests import codes, scalars
from gitops.manifests.file_state import FileState, UnreadableError

# Both begin with what is rare, not with what comes before it: that makes the search ten times faster.
_BAD_SEPARATOR = re.compile(r"---(?<=^---)(?![ \t]*\r?$|[ \t]+#)", re.MULTILINE)
_ODD_SEPARATOR = re.compile("---(?<=[\x85\u2028\u2029]---)(?=[ \t\r\n\x85\u2028\u2029]|\\Z)")
_JSON_ONLY = re.compile(r"\\[u/]|[\x7f-\x9f\u2028\u2029\ufffe\uffff]|[0-9][eE]|[0-9]{300}|^\.\.\.", re.MULTILINE)
"""What a JSON text must hold to be read otherwise as YAML."""

_END_MARK = re.compile(r"\s*^\.\.\.(?:\s|\Z)", re.MULTILINE)

_JSON_ESCAPE = re.compile(r"\\u(d[89ab]..)\\u(d[c-f]..)|\\(.)|([\x7f-\x9f\u2028\u2029\ufffe\uffff])", re.IGNORECASE)
_SLASH_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*\\/")


def as_kubectl_splits(text: str, state: FileState) -> str:
    """The text as YAML that means for libyaml what the text means for kubectl. Raises UnreadableError after recording
    why. Lines stay as they are."""
    text = _first_json_as_yaml(text, state)
    if found := _BAD_SEPARATOR.search(text):
        _refuse(state, text, found.start(), "`---` stands alone on its line, but for blanks and a comment after them")
    if found := _ODD_SEPARATOR.search(text):
        _refuse(state, text, found.start(), "`---` follows U+0085, U+2028 or U+2029: no line break for kubectl")
    return text if text.endswith("\n") else text + "\n"


def may_differ(text: str) -> bool:
    """Whether scalars of the text need to be looked at by refused()."""
    return "?" in text or "\\/" in text


def refused(event: Any, text: str, *, in_flow: bool) -> str:
    """What kubectl does not accept of a scalar event, as one sentence; mostly "". `text` is the file's."""
    if event.style == '"':
        if _SLASH_ESCAPE.search(text, event.start_mark.index, event.end_mark.index):
            return "kubectl does not know the escape `\\/`: write `/`"
    elif in_flow and not event.style and "?" in event.value:
        return f"kubectl ends the text {scalars.shown(event.value)} at its question mark: put it in quotes"
    return ""


def is_hollow(root: Any, *, end: Any) -> bool:
    """Whether a document's first and last event are an empty scalar and `...`: for kubectl that piece is no YAML."""
    is_scalar: bool = type(root) is ScalarEvent
    return is_scalar and bool(end.explicit) and root.start_mark.index == root.end_mark.index


class _TooLargeError(Exception):
    """A number of a JSON text that Go's float64 cannot hold: kubectl refuses it, in YAML it would be text."""


def _number(literal: str) -> float:
    if float(literal) in (float("inf"), float("-inf")):
        raise _TooLargeError(literal)
    return 0.0


def _no_json(literal: str) -> NoReturn:
    raise ValueError(literal)  # NaN and Infinity, which Python's decoder knows


_JSON = json.JSONDecoder(parse_float=_number, parse_int=len, parse_constant=_no_json, object_pairs_hook=len)
"""Finds the end of a value, and keeps little of the value itself."""


def _first_json_as_yaml(text: str, state: FileState) -> str:
    """The text with the JSON value it starts with, if it does, so that YAML reads the same: surrogate pairs and `\\/`
    are escapes of JSON only; NEL, LS and PS are no line breaks there, and most control characters are allowed."""
    start = len(text) - len(text.lstrip())
    if not text.startswith("{", start) or not _JSON_ONLY.search(text):
        return text
    try:
        _, end = _JSON.raw_decode(text, start)
    except _TooLargeError as error:
        literal = str(error)
        message = f"{scalars.shown(literal)} is beyond any number, and JSON has no text without quotes"
        state.add(codes.NUMBER_TOO_LARGE, message, line=text.count("\n", 0, text.find(literal)) + 1)
        raise UnreadableError from None
    except (ValueError, RecursionError):
        return text  # no JSON: kubectl tries YAML then
    if found := _END_MARK.match(text, end):
        _refuse(state, text, found.end() - 1, "kubectl reads JSON here, which has no `...`")
    return text[:start] + _JSON_ESCAPE.sub(_yaml_escape, text[start:end]) + text[end:]


def _yaml_escape(found: re.Match[str]) -> str:
    high, low, escaped, character = found.groups()
    if high:
        return f"\\U{0x10000 + ((int(high, 16) - 0xD800) << 10) + int(low, 16) - 0xDC00:08x}"
    if character:
        return f"\\u{ord(character):04x}"
    return "/" if escaped == "/" else found[0]


def _refuse(state: FileState, text: str, at: int, message: str) -> NoReturn:
    state.add(codes.KUBECTL_REFUSES, message, line=text.count("\n", 0, at) + 1)
    raise UnreadableError
