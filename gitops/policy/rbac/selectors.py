"""Label selectors of aggregated ClusterRoles.

Source: metav1.LabelSelectorAsSelector and labels.Requirement.Matches: all parts must hold, an empty selector takes
everything, NotIn and DoesNotExist hold for an absent key too. What that function refuses, stops the API server's
aggregation, so it is no selector here either.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class BadSelectorError(ValueError):
    """A selector that cannot be read; the text says why."""


@dataclass(frozen=True, slots=True)
class Selector:
    """`requirements`: key, operator (In, NotIn, Exists, DoesNotExist), values."""

    requirements: tuple[tuple[str, str, tuple[str, ...]], ...]

    def matches(self, labels: Mapping[str, str]) -> bool:
        return all(_holds(labels.get(key), operator, values) for key, operator, values in self.requirements)


def _holds(value: str | None, operator: str, values: tuple[str, ...]) -> bool:
    if operator in ("In", "NotIn"):
        return (value in values) is (operator == "In")
    return (value is not None) is (operator == "Exists")


def read_selector(value: Any) -> Selector:
    """From JSON. Raises BadSelectorError."""
    if not isinstance(value, dict) or value.keys() - {"matchLabels", "matchExpressions"}:
        raise BadSelectorError("is no map of matchLabels and matchExpressions")
    labels = {} if value.get("matchLabels") is None else value["matchLabels"]
    expressions = [] if value.get("matchExpressions") is None else value["matchExpressions"]
    if not isinstance(labels, dict) or not all(isinstance(v, str) for v in labels.values()):
        raise BadSelectorError("has no map of texts under matchLabels")
    if not isinstance(expressions, list):
        raise BadSelectorError("has no list under matchExpressions")
    found = [(key, "In", (wanted,)) for key, wanted in labels.items()]
    return Selector((*found, *map(_expression, expressions)))


def _expression(value: Any) -> tuple[str, str, tuple[str, ...]]:
    key, operator, values = (
        (value.get(k) for k in ("key", "operator", "values")) if isinstance(value, dict) else [None] * 3
    )
    values = [] if values is None else values
    if not isinstance(key, str) or not isinstance(values, list) or not all(isinstance(v, str) for v in values):
        raise BadSelectorError("has an expression without a key, or with values that are no texts")
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        raise BadSelectorError("has an expression with an unknown operator")
    if bool(values) is not operator.endswith("In"):
        raise BadSelectorError(f"has an expression {operator} with{'out' if not values else ''} values")
    return key, operator, tuple(values)
