"""One CEL expression: compiled once, evaluated over plain values.

Expressions come from repositories and are hostile: text is bounded, the engine bounds nesting (32 levels) and
iterations (10,000), and no exception of the engine escapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from cel_expr_python import cel

from gitops.policy.cel.environment import environment
from gitops.policy.cel.functions.declaring import GAVE_UP
from gitops.policy.cel.syntax import Times, Tokens, Work

LONGEST_TEXT = 16 << 10
"""Characters of an expression. The longest rule of the operators' CRDs has about 2,000."""

MOST_WORK = 5e8
"""Of one evaluation: seconds at the very worst."""

DEEPEST = 100
_LARGEST = 2**63 - 1


@dataclass(frozen=True, slots=True)
class CompileProblem:
    """Why a text is no expression, or none that this engine knows; `reason` names the function that is missing."""

    text: str
    reason: str


class EvaluationError(ValueError):
    """The expression has no value here: a missing key, operands that do not fit. An API server says the same."""


class NotEvaluatedError(EvaluationError):
    """This engine gives up where an API server might not: a budget, a value it cannot hold."""


@dataclass(frozen=True, slots=True)
class Expression:
    """A compiled expression. Equal texts over equal variables are equal."""

    text: str
    variables: tuple[str, ...]
    work: Work
    _program: Any

    @staticmethod
    def compile(
        text: str, variables: tuple[str, ...] = ("self",), *, optional: str = "", times: Times | None = None
    ) -> Expression | CompileProblem:
        """The expression over variables of any type; a problem, when it does not compile.

        `optional` is a variable that is an optional for the expression: its value is a list of one item or none.
        `times` says where a schema has points in time and durations, whose values are then canonical texts.
        """
        if len(text) > LONGEST_TEXT:
            return CompileProblem(text[:80], f"longer than {LONGEST_TEXT} characters")
        if not _sound(text):
            return CompileProblem(ascii(text[:80]), "characters that are no text")
        try:
            tokens = Tokens(text)
            program = environment(variables).compile(tokens.rewritten(optional=optional, times=times))
            return Expression(text, variables, tokens.work(), program)
        except Exception as error:  # the binding raises RuntimeError and others, undocumented
            return CompileProblem(text, _reason(str(error)))

    def evaluate(self, /, **values: Any) -> Any:
        """The plain value: bool, int, float, str, bytes, None, list, dict, datetime or timedelta.

        `values` are JSON values, by the names of the variables. Raises EvaluationError, or NotEvaluatedError where
        that says nothing about the expression.
        """
        size = Size()
        for value in values.values():
            size.add(value)
        return self.run(environment(self.variables).Activation(values), size)

    def run(self, activation: Any, size: Size) -> Any:
        """As evaluate(), with values that the engine has already."""
        if self.work.bound(size.items, size.longest) > MOST_WORK:
            raise NotEvaluatedError("could take long with so large a value")
        try:
            result = self._program.eval(activation=activation)
            if result.type() == cel.Type.ERROR:
                raise _error(str(result.value()), self.text)
            return result.plain_value()
        except EvaluationError:
            raise
        except Exception as error:  # see compile()
            raise _error(str(error), self.text) from error


@dataclass(slots=True)
class Size:
    """How much there is to look at in values: items of all lists and maps, characters of the longest text."""

    items: int = 0
    longest: int = 0

    def add(self, value: Any, depth: int = 0) -> None:
        """Raises NotEvaluatedError for what the engine cannot hold: integers beyond 64 bits, NUL characters (it cuts
        texts there), surrogates, more levels than its stack is sure to bear."""
        if isinstance(value, str):
            self.longest = max(self.longest, len(value))
            if not _sound(value):
                raise NotEvaluatedError("a text has characters that the engine cannot hold")
        elif isinstance(value, dict | list):
            if depth > DEEPEST:
                raise NotEvaluatedError(f"a value has more than {DEEPEST} levels")
            self.items += len(value)
            for child in value:
                self.add(child, depth + 1)
            for child in value.values() if isinstance(value, dict) else ():
                self.add(child, depth + 1)
        elif isinstance(value, int) and not -_LARGEST - 1 <= value <= _LARGEST:
            raise NotEvaluatedError("an integer is beyond 64 bits")


def _sound(text: str) -> bool:
    return "\0" not in text and (text.isascii() or not _SURROGATE.search(text))


_SURROGATE = re.compile("[\ud800-\udfff]")
_POSITION = re.compile(r"ERROR: <input>:-?\d+:-?\d+: ")


def _reason(message: str) -> str:
    """The compiler's first complaint, without the excerpt of the text."""
    first = _POSITION.sub("", message.partition("\n")[0]).removeprefix("INVALID_ARGUMENT: ")
    return first[:200] or "does not compile"


_GAVE_UP = ("INTERNAL", "RESOURCE_EXHAUSTED", "UNIMPLEMENTED", "CANCELLED", "Non-CEL value", GAVE_UP)
_NO_KEY = re.compile(r"Key not found in map : \"?(.{0,200}?)\"?\Z", re.DOTALL)
_NO_INDEX = re.compile(r"Index error: index=(-?\d+)")
_SAID = (
    ("No matching overloads found", "no such overload"),
    ("divide by zero", "division by zero"),
    ("modulus by zero", "modulus by zero"),
    ("overflow", "integer overflow"),
    ("Applying SELECT to non-message type", "no such overload"),
    ("cannot convert", "type conversion error"),
    ("optional.none() dereference", "optional.none() dereference"),
)


def _error(message: str, text: str) -> EvaluationError:
    """The engine's words as those of an API server (cel-go), and without values, which may be secret: a key is shown
    when the expression has it."""
    if any(word in message for word in _GAVE_UP):
        return NotEvaluatedError(_reason(message))
    if found := _NO_KEY.search(message):
        return EvaluationError(f"no such key: {found[1]}" if found[1] in text else "no such key")
    if found := _NO_INDEX.search(message):
        return EvaluationError(f"index out of bounds: {found[1]}")
    return EvaluationError(next((ours for theirs, ours in _SAID if theirs in message), "an error of a function"))
