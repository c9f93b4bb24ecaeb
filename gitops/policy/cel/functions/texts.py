"""Functions of texts: RE2 searches, and what the engine has of the strings library differently or without bounds."""

from __future__ import annotations

import functools
import re
import sys
import warnings
from typing import Any

from gitops.policy.cel.functions.declaring import LONGEST, CallError, Function, GaveUpError

LONGEST_TEXT = 1 << 20
"""Characters of a text that a function makes."""

_STEPS = 10_000_000
"""Of a backtracking search: about a tenth of a second."""
_NOT_ALIKE = re.compile(r"\\[pPzZQECABGhRuUx]|\[\[:|\[:|\(\?[^:)]|\\[0-9]|[*+?}][+]")
"""Where RE2 and Python's expressions part. `(?i)` and its like are not worth the trouble."""


def _replace(text: str, old: str, new: str, count: int = -1) -> str:
    times = text.count(old) if count < 0 else min(text.count(old), count)
    if len(text) + times * (len(new) - len(old)) > LONGEST_TEXT:
        raise GaveUpError("a text becomes too long")
    return text.replace(old, new, count)


def _join(parts: list[Any], separator: str = "") -> str:
    if not all(isinstance(part, str) for part in parts):
        raise CallError("No matching overloads found")
    if sum(map(len, parts)) + len(parts) * len(separator) > LONGEST_TEXT:
        raise GaveUpError("a text becomes too long")
    return separator.join(parts)


def _split(text: str, mark: str, limit: int = -1) -> list[str]:
    """Go's strings.SplitN; without a mark, characters."""
    if limit == 0:
        return []
    if mark:
        return text.split(mark, limit - 1 if limit > 0 else -1)
    cut = len(text) if limit < 0 else limit - 1
    return [*text[:cut], *([text[cut:]] if text[cut:] else [])]


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise CallError("index out of range")
    return text[start:end]


def _index(text: str, part: str, start: int = 0) -> int:
    """From `start` on; beyond the text there is nothing, which is no error."""
    if not part:
        return start
    if start < 0:
        raise CallError("index out of range")
    return text.find(part, start)


def _last_index(text: str, part: str, start: int | None = None) -> int:
    """From `start` backwards."""
    if not part:
        return len(text) if start is None else start
    if start is None:
        return text.rfind(part)
    if start < 0:
        raise CallError("index out of range")
    return -1 if start >= len(text) else text.rfind(part, 0, start + len(part))


def _find(text: str, pattern: str) -> str:
    found = _search(pattern, text).search(text)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    if limit == 0:
        return []
    result: list[str] = []
    end = -1
    for found in _search(pattern, text).finditer(text):
        if found.start() == found.end() == end:
            continue  # Go takes no empty match right after another match
        end = found.end()
        result.append(found[0])
        if len(result) == limit:
            break
        if len(result) > LONGEST:
            raise GaveUpError("a list becomes too long")
    return result


def _search(pattern: str, text: str) -> re.Pattern[str]:
    """The pattern for Python's engine, which backtracks: refused where it could take long, or differ from RE2."""
    compiled, ways = _compiled(pattern)
    if compiled is None or ("$" in pattern and text.endswith("\n")):
        raise GaveUpError("a pattern that only RE2 understands")
    if (len(text) + 1) * ways(len(text) + 1) > _STEPS:
        raise GaveUpError("a pattern that could take long")
    return compiled


@functools.lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[re.Pattern[str] | None, Any]:
    if len(pattern) > 1000 or _NOT_ALIKE.search(pattern) or not pattern.isascii():
        return None, None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(pattern, re.ASCII), functools.partial(_ways, _parsed(pattern))
    except (re.error, Warning, RecursionError, OverflowError) as error:
        if isinstance(error, re.error):
            raise CallError("illegal regex") from error
        return None, None


def _parsed(pattern: str) -> Any:
    parser: Any = sys.modules["re"]._parser
    return parser.parse(pattern, re.ASCII)


def _ways(tree: Any, length: int) -> float:
    """Upper bound of the ways to match at one position of a text: what a backtracking search may try."""
    total = 1.0
    for op, argument in tree:
        name = str(op)
        if name == "BRANCH":
            total *= sum(_ways(branch, length) for branch in argument[1])
        elif name == "SUBPATTERN":
            total *= _ways(argument[3], length)
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            least, most, body = argument
            most = min(int(most), length)
            if _ways(body, length) > 1:
                total *= _ways(body, length) ** min(most, 64)
            total *= max(most - least + 1, 1)
        elif name not in ("LITERAL", "NOT_LITERAL", "IN", "ANY", "AT"):
            return float("inf")
    return min(total, 1e300)


FUNCTIONS = (
    Function("find", ("string", "string"), "string", _find),
    Function("findAll", ("string", "string"), "list", _find_all),
    Function("findAll", ("string", "string", "int"), "list", _find_all),
    Function("k8s_substring", ("string", "int"), "string", _substring),
    Function("k8s_substring", ("string", "int", "int"), "string", _substring),
    Function("k8s_indexOf", ("string", "string"), "int", _index),
    Function("k8s_indexOf", ("string", "string", "int"), "int", _index),
    Function("k8s_lastIndexOf", ("string", "string"), "int", _last_index),
    Function("k8s_lastIndexOf", ("string", "string", "int"), "int", _last_index),
    Function("k8s_replace", ("string", "string", "string"), "string", _replace),
    Function("k8s_replace", ("string", "string", "string", "int"), "string", _replace),
    Function("k8s_split", ("string", "string"), "list", _split),
    Function("k8s_split", ("string", "string", "int"), "list", _split),
    Function("k8s_join", ("list",), "string", _join),
    Function("k8s_join", ("list", "string"), "string", _join),
)
