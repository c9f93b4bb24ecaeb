"""What the engine's parser does not do, done on the tokens before it: macros, optionals, a bound of the work.

The engine lacks the macros with two variables and sortBy, and its binding carries neither optionals nor points in time
from Python. Each is written with what there is: `m.all(k, v, p)` becomes
`[m].all(r, keys(r).all(k, [r[k]].all(v, p)))`. What is not understood stays, and the engine's compiler complains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""\s+|//[^\n]*"""
    r"""|(?P<text>[rRbB]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))"""
    r"""|(?P<name>[A-Za-z_][A-Za-z0-9_]*)"""
    r"""|(?P<number>0x[0-9A-Fa-f]+u?|(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?u?)"""
    r"""|(?P<mark>\.\?|\[\?|&&|\|\||[=!<>]=|.)""",
    re.DOTALL,
)
_RAW = re.compile(r"""[bB]?[rR][bB]?["']""")
_PAIRS = {"(": ")", "[": "]", "[?": "]", "{": "}"}
_ONE_VARIABLE = frozenset(
    {"all", "exists", "exists_one", "existsOne", "map", "filter", "optMap", "optFlatMap", "sortBy"}
)
_LISTS = {"transformList": "{}", "transformMap": "k8s_map({})", "transformMapEntry": "k8s_merge({})"}
_TRUTHS = {"all": "all", "exists": "exists", "existsOne": "exists_one", "exists_one": "exists_one"}
_MACROS = _ONE_VARIABLE | _LISTS.keys()
_METHODS = frozenset({"replace", "join", "split", "substring", "indexOf", "lastIndexOf", "format", "getMilliseconds"})
"""Methods that the engine has, and cel-go differently: ours are called instead."""
_FUNCTIONS = frozenset({"string", "bool"})
_TO_REWRITE = frozenset({"validate", "named", "sortBy", *_METHODS, *_FUNCTIONS, *_LISTS, *_TRUTHS})

ITERATIONS = 10_000
"""Of the engine, for one evaluation."""


class SyntaxUnknownError(ValueError):
    """Brackets without their partners, raw texts that end in a backslash, …: the compiler says what is wrong."""


@dataclass(frozen=True, slots=True)
class Work:
    """What an evaluation can cost at worst, in characters looked at or made."""

    depth: int  # of macros in each other
    macros: int
    copies: int  # places that can put a value twice into another: operators and commas
    length: int  # of the text

    def bound(self, items: int, longest: int) -> float:
        """For data with so many items in all its lists and maps, and a longest text of so many characters."""
        rounds = min(float(ITERATIONS), float(items + self.copies + 1) ** self.depth)
        growth = (self.copies / self.macros + 1) ** self.macros if self.macros else self.copies + 1
        return float(rounds * growth * (longest + self.length + items))


@dataclass(slots=True)
class Uses:
    """Fields that an expression can reach, by their names in CEL; `whole` keeps everything."""

    whole: bool = False
    fields: dict[str, Uses] = field(default_factory=dict)

    def below(self, name: str) -> Uses:
        return EVERYTHING if self.whole else self.fields[name]


EVERYTHING = Uses(whole=True)

Times = Callable[[tuple[str, ...]], str | None]
"""What the schema says of a path of fields from `self`: `timestamp`, `duration`; `below` when such a value is further
down; `plain` when there is none; None for no such field."""


class Tokens:
    """A text in tokens, with the partner of each bracket. Raises SyntaxUnknownError."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.kinds: list[str] = []
        self.tokens: list[str] = []
        for found in _TOKEN.finditer(text):
            if found.lastgroup:
                self.kinds.append(found.lastgroup)
                self.tokens.append(found[0])
                if found.lastgroup == "text" and _RAW.match(found[0]) and "\\" in found[0]:
                    self._require_raw(found[0])
        self.closes = self._partners()

    @staticmethod
    def _require_raw(token: str) -> None:
        """A raw text ends at the first quote, which the pattern may have passed."""
        start = _RAW.match(token)
        assert start is not None
        quote = start[0][-1]
        body = token[start.end() : -1]
        if re.search(r"\\" + quote, body):
            raise SyntaxUnknownError("a raw text with a quote after a backslash")

    def _partners(self) -> dict[int, int]:
        closes: dict[int, int] = {}
        opened: list[int] = []
        for at, token in enumerate(self.tokens):
            if self.kinds[at] != "mark":
                continue
            if token in _PAIRS:
                opened.append(at)
            elif token in ")]}":
                if not opened or _PAIRS[self.tokens[opened[-1]]] != token:
                    raise SyntaxUnknownError("brackets without their partners")
                closes[opened.pop()] = at
        if opened:
            raise SyntaxUnknownError("brackets without their partners")
        return closes

    def names(self) -> Iterator[tuple[int, str]]:
        """Names that are no fields and no methods."""
        for at, token in enumerate(self.tokens):
            if self.kinds[at] == "name" and (at == 0 or self.tokens[at - 1] not in (".", ".?")):
                yield at, token

    def mentions(self, name: str) -> bool:
        return any(token == name for _, token in self.names())

    def note_uses(self, variables: frozenset[str], uses: Uses) -> None:
        """Add the fields that are read of the variables."""
        for at, name in self.names():
            if name not in variables:
                continue
            node, after = uses, at + 1
            while self.tokens[after : after + 1] in (
                [
                    ".",
                ],
                [".?"],
            ) and after + 1 < len(self.tokens):
                if self.tokens[after + 2 : after + 3] == ["("]:
                    break  # a method
                node = node.fields.setdefault(self.tokens[after + 1], Uses())
                after += 2
            node.whole = True

    def work(self) -> Work:
        ends: list[int] = []
        depth = macros = 0
        for at, token in enumerate(self.tokens):
            ends = [end for end in ends if end > at]
            if token in _MACROS and at + 1 in self.closes and self.kinds[at] == "name":
                ends.append(self.closes[at + 1])
                macros += 1
                depth = max(depth, len(ends))
        copies = sum(
            kind == "mark" and token in ("+", ",") for kind, token in zip(self.kinds, self.tokens, strict=True)
        )
        return Work(depth, macros, copies, len(self.text))

    def rewritten(self, *, optional: str = "", times: Times | None = None) -> str:
        """The text for the engine. `optional` is the variable that stands for a value or none."""
        if not optional and times is None and _TO_REWRITE.isdisjoint(self.tokens):
            return self.text
        return _Rewriter(self, optional, times).span(0, len(self.tokens))


class _Rewriter:
    def __init__(self, tokens: Tokens, optional: str, times: Times | None) -> None:
        self._tokens = tokens.tokens
        self._kinds = tokens.kinds
        self._closes = tokens.closes
        self._optional = optional
        self._times = times
        self._fresh = 0

    def span(self, start: int, end: int) -> str:
        """Tokens from start to before end, rewritten."""
        out: list[str] = []
        chain = 0  # where in `out` the operand starts that a further `.` or `[` belongs to
        operand = False
        at = start
        while at < end:
            token, kind = self._tokens[at], self._kinds[at]
            if kind == "mark" and token in _PAIRS:
                if not operand:
                    chain = len(out)
                close = self._closes[at]
                if token == "(" and operand and len(out) - chain >= 3 and out[-2] == ".":
                    out[chain:] = [self._call("".join(out[chain:-2]), out[-1], self._arguments(at + 1, close))]
                else:
                    if token == "(" and operand and len(out) == chain + 1 and out[-1] in _FUNCTIONS:
                        out[-1] = f"k8s_{out[-1]}"
                    out.append(token + self.span(at + 1, close) + self._tokens[close])
                operand, at = True, close + 1
            elif kind == "mark" and token in (".", ".?") and at + 1 < end:
                out += [token, self._tokens[at + 1]]
                operand, at = True, at + 2
            elif kind == "mark" or token == "in":
                out.append(f" {token} ")
                operand, at = False, at + 1
            else:
                chain = len(out)
                operand = True
                if kind == "name" and token in ("self", "oldSelf"):
                    text, at = self._variable(at, end)
                    out.append(text)
                else:
                    out.append(token)
                    at += 1
        return "".join(out)

    def _arguments(self, start: int, end: int) -> list[str]:
        arguments = []
        at = start
        while at < end:
            if self._kinds[at] == "mark" and self._tokens[at] in _PAIRS:
                at = self._closes[at]
            elif self._kinds[at] == "mark" and self._tokens[at] == ",":
                arguments.append(self.span(start, at))
                start = at + 1
            at += 1
        return [*arguments, self.span(start, end)] if start < end or arguments else []

    def _call(self, receiver: str, name: str, arguments: list[str]) -> str:
        if name in _METHODS:
            name = f"k8s_{name}"
        call = f"{receiver}.{name}({', '.join(arguments)})"
        if len(arguments) == 1 and (name == "validate" or (receiver, name) == ("format", "named")):
            return f"{call}[?0]"
        if name == "sortBy" and len(arguments) == 2:
            item, key = arguments
            return f"k8s_sort_by({receiver}.map({item}, [{key}, {item}]))"
        if name in _TRUTHS and len(arguments) == 3:
            return self._truth(receiver, _TRUTHS[name], *arguments)
        if name in _LISTS and len(arguments) in (3, 4):
            return self._list(receiver, name, arguments)
        return call

    def _truth(self, receiver: str, macro: str, key: str, value: str, predicate: str) -> str:
        r = self._fresh_name()
        return f"[{receiver}].{macro}({r}, k8s_keys({r}).{macro}({key}, [{r}[{key}]].{macro}({value}, {predicate})))"

    def _list(self, receiver: str, name: str, arguments: list[str]) -> str:
        key, value, *condition, result = arguments
        r = self._fresh_name()
        item = f"[{r}[{key}]]"
        where = f"{item}.exists({value}, {condition[0]}), " if condition else ""
        result = f"[{key}, {result}]" if name == "transformMap" else result
        rows = f"[{receiver}].map({r}, k8s_keys({r}).map({key}, {where}{item}.map({value}, {result})[0]))[0]"
        return _LISTS[name].format(rows)

    def _fresh_name(self) -> str:
        self._fresh += 1
        return f"k8s_{self._fresh}"

    def _variable(self, at: int, end: int) -> tuple[str, int]:
        """`self` or `oldSelf` with the fields after it, as far as the schema knows them; and where that ends."""
        start, name = at, self._tokens[at]
        optional = name == self._optional
        text = f"{name}[?0]" if optional else name
        at += 1
        if self._times is None:
            return text, at
        path: tuple[str, ...] = ()
        kind = self._times(path)
        while kind == "below" and not optional and at + 1 < end and self._tokens[at] == ".":
            after = self._times((*path, self._tokens[at + 1]))
            if after is None:
                break
            path, kind = (*path, self._tokens[at + 1]), after
            text, at = f"{text}.{path[-1]}", at + 2
        if kind == "plain" or kind is None or self._is_compared(start, at) or self._is_asked_for(start, at):
            return text, at
        if optional and self._tokens[at : at + 2] == [".", "hasValue"]:
            return text, at
        if kind == "below" or optional:
            raise SyntaxUnknownError(f"points in time or durations below {'.'.join([name, *path])}")
        return f"{kind}({text})", at

    def _is_compared(self, start: int, end: int) -> bool:
        """Whether the whole is only compared: texts for times are canonical, so equal times are equal texts."""
        around = self._tokens[start - 1 : start] + self._tokens[end : end + 1]
        after = self._tokens[end : end + 1]
        return bool({"==", "!="} & set(around)) and after not in ([".?"], ["."], ["["], ["[?"])

    def _is_asked_for(self, start: int, end: int) -> bool:
        return self._tokens[start - 2 : start] == ["has", "("] and self._tokens[end : end + 1] == [")"]
