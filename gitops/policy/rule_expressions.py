"""The CEL expressions of operator types: compiled once in the process, evaluated on values that were looked at before.

They are part of this product or of its settings, so only values can be hostile: what the engine cannot hold is looked
for once in an object (require_plain), not for every rule, and the engine itself bounds how often a rule iterates. Rules
of schemas, which are texts of others, go through gitops.policy.cel.expressions and its bound of the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from cel_expr_python import cel

from gitops.policy.cel.environment import environment
from gitops.policy.cel.expressions import EvaluationError, Size

VARIABLES = ("self", "object", "oldSelf", "oldObject")
"""What rules can name; the old ones only in rules about a change."""

_NOTHING: Mapping[str, Any] = dict.fromkeys(VARIABLES)


def require_plain(body: Mapping[str, Any]) -> None:
    """Raises EvaluationError for an object that the engine cannot hold."""
    Size().add(body)


def scope(**variables: Any) -> Any:
    """Values for expressions, by the names of variables; made once for all rules about one place."""
    return environment(VARIABLES).Activation({**_NOTHING, **variables})


def holds(text: str, values: Any) -> bool:
    """Whether a CEL expression is true in a scope. Raises EvaluationError when it has no value there."""
    program = compiled(text)
    try:
        result = program.eval(activation=values)
        if result.type() != cel.Type.ERROR:
            return result.plain_value() is True
        problem = str(result.value())
    except Exception as error:  # the binding raises RuntimeError and others, undocumented
        problem = str(error)
    raise EvaluationError(problem.partition("\n")[0].partition(": ")[2][:200] or "an error of the engine")


def all_hold(texts: tuple[str, ...], values: Any) -> bool:
    """Whether all of these expressions are true in a scope, in one evaluation: a third of the time of one for each. An
    error or a false one among them is False; which one it is, holds() tells."""
    program = _together(texts)
    try:
        result = None if program is None else program.eval(activation=values)
        return result is not None and result.type() != cel.Type.ERROR and result.plain_value() is True
    except Exception:  # as above
        return False


@cache
def _together(texts: tuple[str, ...]) -> Any:
    """One program, or None when the engine takes them only one by one. `&&` is true if and only if both sides are
    (CEL specification, "Logical Operators")."""
    try:
        return compiled(" && ".join(f"({text}\n)" for text in texts))
    except ValueError:
        return None


@cache
def compiled(text: str) -> Any:
    """A rule's program. Raises ValueError for a text that is no expression."""
    try:
        return environment(VARIABLES).compile(text)
    except Exception as error:  # as above
        raise ValueError(str(error).partition("\n")[0][:200]) from None
