"""Patterns of schemas, written for Go's regular expressions (RE2 syntax), as ECMA 262 ones that match the same texts.

The schema library takes only ECMA 262 and gives it to an engine of linear time. What RE2 has beyond it is spelled out:
flags, named groups, ASCII and POSIX classes, `\\A`, `\\z`, `\\Q…\\E`. Source: https://github.com/google/re2/wiki/Syntax
and the documentation of Go's package regexp/syntax. What cannot be said (`(?m)`, word boundaries, folding beyond ASCII)
gives None: such a pattern is reported as not checked.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

Ranges = list[tuple[int, int]]

_LAST = 0x10FFFF
_MOST_REPEATS = 1000  # RE2 and Go refuse more
_DEEPEST = 100
_POSIX: dict[str, Ranges] = {
    "alnum": [(48, 57), (65, 90), (97, 122)],
    "alpha": [(65, 90), (97, 122)],
    "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)],
    "cntrl": [(0, 31), (127, 127)],
    "digit": [(48, 57)],
    "graph": [(33, 126)],
    "lower": [(97, 122)],
    "print": [(32, 126)],
    "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)],
    "upper": [(65, 90)],
    "word": [(48, 57), (65, 90), (95, 95), (97, 122)],
    "xdigit": [(48, 57), (65, 70), (97, 102)],
}
_PERL = {"d": _POSIX["digit"], "w": _POSIX["word"], "s": [(9, 10), (12, 13), (32, 32)]}
_CONTROLS = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_REPEAT = re.compile(r"\{(\d{1,4})(?:(,)(\d{0,4}))?\}")
_GROUP_NAME = re.compile(r"\(\?P?<(\w+)>", re.ASCII)
_FLAGS = re.compile(r"\(\?([imsU]*)(?:-([imsU]+))?([:)])")
_PROPERTY = re.compile(r"[pP](?:\{(\^?)([A-Za-z_]+)\}|([A-Z]))")
_HEX = re.compile(r"x(?:\{([0-9A-Fa-f]{1,8})\}|([0-9A-Fa-f]{2}))")
_OCTAL = re.compile(r"0[0-7]{0,2}|[1-7][0-7]{1,2}")


class _Unsayable(ValueError):
    pass


@functools.lru_cache(maxsize=4096)
def ecma_pattern(pattern: str) -> str | None:
    """An ECMA 262 pattern for the same texts; None where there is none, or where Go would not take the pattern."""
    try:
        return _Translator(pattern).whole()
    except _Unsayable:
        return None


class _Translator:
    """One pass over the pattern; `at` is where it stands."""

    def __init__(self, pattern: str) -> None:
        self.text = pattern
        self.at = 0

    def whole(self) -> str:
        said = self._alternatives(frozenset(), 0)
        if self.at < len(self.text):
            raise _Unsayable
        return said

    def _alternatives(self, flags: frozenset[str], depth: int) -> str:
        """Up to the end of the group; flags that are set inside hold to its end."""
        if depth > _DEEPEST:
            raise _Unsayable
        said: list[str] = []
        repeatable = False
        while self.at < len(self.text) and self.text[self.at] != ")":
            if (repeat := self._repeat()) is not None:
                if not repeatable:
                    raise _Unsayable
                said.append(repeat)
                repeatable = False
                continue
            if found := _FLAGS.match(self.text, self.at):
                more = (flags | set(found[1])) - set(found[2] or "")
                if "m" in more:
                    raise _Unsayable
                self.at = found.end()
                if found[3] == ")":
                    flags, repeatable = more, False
                    continue
                said.append(self._group(more, depth))
            else:
                said.append(self._atom(flags, depth))
            repeatable = said[-1] != "|"
        return "".join(said)

    def _repeat(self) -> str | None:
        symbol = self.text[self.at]
        if symbol in "*+?":
            self.at += 1
        elif symbol == "{" and (found := _REPEAT.match(self.text, self.at)):
            least, most = int(found[1]), int(found[3] or found[1])
            if max(least, most) > _MOST_REPEATS or least > most:
                raise _Unsayable
            symbol, self.at = found[0], found.end()
        else:
            return None
        if self.text[self.at : self.at + 1] == "?":  # lazy: the same texts match
            self.at += 1
        return symbol

    def _group(self, flags: frozenset[str], depth: int) -> str:
        inner = self._alternatives(flags, depth + 1)
        if self.text[self.at : self.at + 1] != ")":
            raise _Unsayable
        self.at += 1
        return f"(?:{inner})"

    def _atom(self, flags: frozenset[str], depth: int) -> str:
        if found := _GROUP_NAME.match(self.text, self.at):
            self.at = found.end()
            return self._group(flags, depth)
        symbol = self.text[self.at]
        self.at += 1
        if symbol == "(":
            if self.text[self.at : self.at + 1] == "?":
                raise _Unsayable
            return self._group(flags, depth)
        if symbol in "|^$":
            return symbol
        if symbol == ".":
            return _class([(0, _LAST)]) if "s" in flags else _class([(10, 10)], negated=True)
        if symbol == "[":
            return self._class(flags)
        if symbol == "\\":
            return self._escape(flags)
        return _literal(ord(symbol), flags)

    def _escape(self, flags: frozenset[str]) -> str:
        symbol = self.text[self.at : self.at + 1]
        if symbol in ("A", "z"):
            self.at += 1
            return "^" if symbol == "A" else "$"
        if symbol == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 1 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            return "".join(_literal(ord(char), flags) for char in quoted)
        found = self._class_escape(flags)
        if isinstance(found, int):
            return _literal(found, flags)
        return found if isinstance(found, str) else _class(found)

    def _class_escape(self, flags: frozenset[str]) -> int | Ranges | str:
        """What is after a backslash, inside a class or not: one character, a set of them, or a property's name."""
        symbol = self.text[self.at : self.at + 1]
        if symbol and symbol.lower() in _PERL:
            self.at += 1
            ranges = _PERL[symbol.lower()]
            return ranges if symbol.islower() else _complement(ranges)
        if found := _PROPERTY.match(self.text, self.at):
            if "i" in flags:
                raise _Unsayable
            self.at = found.end()
            negated = (found[0][0] == "P") != bool(found[1])
            return f"\\{'P' if negated else 'p'}{{{found[2] or found[3]}}}"
        if found := _HEX.match(self.text, self.at):
            self.at = found.end()
            code = int(found[1] or found[2], 16)
            if code > _LAST or 0xD800 <= code <= 0xDFFF:
                raise _Unsayable
            return code
        if found := _OCTAL.match(self.text, self.at):
            self.at = found.end()
            return int(found[0], 8)
        if symbol in _CONTROLS:
            self.at += 1
            return _CONTROLS[symbol]
        if symbol and symbol.isascii() and not symbol.isalnum():
            self.at += 1
            return ord(symbol)
        raise _Unsayable

    def _class(self, flags: frozenset[str]) -> str:
        negated = self.text[self.at : self.at + 1] == "^"
        self.at += negated
        ranges: Ranges = []
        properties: list[str] = []
        first = True
        while first or self.text[self.at : self.at + 1] != "]":
            first = False
            if self.at >= len(self.text):
                raise _Unsayable
            if found := re.compile(r"\[:(\^?)(\w+):\]").match(self.text, self.at):
                if found[2] not in _POSIX:
                    raise _Unsayable
                self.at = found.end()
                ranges += _complement(_POSIX[found[2]]) if found[1] else _POSIX[found[2]]
                continue
            low = self._class_member(flags)
            if isinstance(low, str):
                properties.append(low)
            elif isinstance(low, list):
                ranges += low
            else:
                ranges.append((low, self._high(low, flags)))
        self.at += 1
        return _class(_folded(ranges) if "i" in flags else ranges, properties, negated=negated)

    def _high(self, low: int, flags: frozenset[str]) -> int:
        """The end of a range that starts with `low`; itself when there is none."""
        if self.text[self.at : self.at + 1] != "-" or self.text[self.at + 1 : self.at + 2] in ("]", ""):
            return low
        self.at += 1
        high = self._class_member(flags)
        if not isinstance(high, int) or high < low:
            raise _Unsayable
        return high

    def _class_member(self, flags: frozenset[str]) -> int | Ranges | str:
        symbol = self.text[self.at]
        self.at += 1
        return self._class_escape(flags) if symbol == "\\" else ord(symbol)


def _complement(ranges: Ranges) -> Ranges:
    gaps, start = [], 0
    for low, high in sorted(ranges):
        if start < low:
            gaps.append((start, low - 1))
        start = max(start, high + 1)
    return [*gaps, (start, _LAST)] if start <= _LAST else gaps


def _folded(ranges: Ranges) -> Ranges:
    """With the other case of every letter: of ASCII, and of the two letters outside it that fold into it."""
    more = list(ranges)
    for low, high in ranges:
        if high > 127 and (low, high) not in ((128, _LAST), (123, _LAST), (127, _LAST)):
            raise _Unsayable
        for shift, first, last in ((32, 65, 90), (-32, 97, 122)):
            if max(low, first) <= min(high, last):
                more.append((max(low, first) + shift, min(high, last) + shift))
        for letter, outside in ((75, 0x212A), (107, 0x212A), (83, 0x17F), (115, 0x17F)):
            if low <= letter <= high:
                more.append((outside, outside))
    return more


def _literal(code: int, flags: frozenset[str]) -> str:
    if "i" in flags and (code > 127 or chr(code).isalpha()):
        return _class(_folded([(code, code)]))
    return _char(code)


def _class(ranges: Iterable[tuple[int, int]], properties: Iterable[str] = (), *, negated: bool = False) -> str:
    inner = "".join(_char(low) if low == high else f"{_char(low)}-{_char(high)}" for low, high in sorted(set(ranges)))
    return f"[{'^' if negated else ''}{inner}{''.join(properties)}]"


def _char(code: int) -> str:
    char = chr(code)
    if char.isascii() and char.isalnum():
        return char
    return f"\\u{code:04x}" if code <= 0xFFFF else char
