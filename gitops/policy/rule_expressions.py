"""The CEL expressions of operator types: their variables, compiled once in the process."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from gitops.policy.cel.expressions import Expression

VARIABLES = ("self", "object", "oldSelf", "oldObject")
"""What rules can name; the old ones only in rules about changes."""

_NOTHING: Mapping[str, Any] = dict.fromkeys(VARIABLES)


def holds(text: str, variables: Mapping[str, Any]) -> bool:
    """Whether a CEL expression is true. Raises EvaluationError when it has no value on these."""
    return compiled(text).evaluate(**{**_NOTHING, **variables}) is True


@cache
def compiled(text: str) -> Expression:
    """A rule's expression. Rules are trusted data of operator types: raises ValueError for a text that is none."""
    found = Expression.compile(text, VARIABLES)
    if not isinstance(found, Expression):
        raise ValueError(f"{found.reason}: {found.text}")
    return found
