"""The schema library's errors as problems, in the API server's words without its quoted values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jsonschema_rs

from gitops.manifests.lines import Path
from gitops.policy.schemas.conversion import UNCHECKED
from gitops.policy.schemas.number_words import RULES, supported
from gitops.policy.verdicts import Problem

Error = jsonschema_rs.ValidationError
Tolerates = Callable[[Path], bool]

_LONGEST = 600
"""Characters of a message: patterns and options may be long."""
MOST_PROBLEMS = 100
"""Problems of one object; nobody reads more."""


def answers(
    errors: Iterable[Error], patterns: Mapping[str, str], tolerates: Tolerates | None
) -> Iterator[Problem | str]:
    """Problems, and sentences on what was not checked. `tolerates`: whether what is wrong at a path may stay so;
    None where there was nothing before. `patterns` has the schema's own words for the patterns of the errors."""
    count = 0
    for error in errors:
        if count >= MOST_PROBLEMS:
            return
        path = _path(error)
        if tolerates is not None and (tolerates(path) or _satisfied(error, tolerates)):
            continue
        if unclear := _unclear(error):
            yield unclear
            continue
        count += 1
        kind = error.kind
        if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
            yield Problem((*path, kind.property), "Required value", "required")
        else:
            rule = RULES[kind.keyword] if isinstance(kind, jsonschema_rs.ValidationErrorKind.Custom) else kind.name
            yield Problem(path, _words(error, patterns)[:_LONGEST], rule)


def _path(error: Error) -> Path:
    return tuple(error.instance_path)


def _satisfied(error: Error, tolerates: Tolerates) -> bool:
    """Whether an alternative fits but for what may stay as it was."""
    kinds = jsonschema_rs.ValidationErrorKind
    if not isinstance(error.kind, kinds.AnyOf | kinds.OneOfNotValid):
        return False
    fitting = [all(tolerates(_path(e)) or _satisfied(e, tolerates) for e in branch) for branch in error.kind.context]
    return any(fitting) if isinstance(error.kind, kinds.AnyOf) else fitting.count(True) == 1


def _unclear(error: Error) -> str | None:
    kind = error.kind
    if isinstance(kind, jsonschema_rs.ValidationErrorKind.Format) and kind.format.startswith(UNCHECKED):
        what = kind.format.removeprefix(UNCHECKED)
        return "a pattern that cannot be evaluated" if what == "pattern" else f"a value whose format {what} is unclear"
    return None


def _words(error: Error, patterns: Mapping[str, str]) -> str:
    kind: Any = error.kind
    match kind.name:
        case "type":
            return f"must be of type {_types(error)}"
        case "enum":
            return supported(kind.options)
        case "pattern":
            return f"should match '{patterns.get(kind.pattern, kind.pattern)}'"
        case "format":
            return f"must be of format {kind.format.removeprefix('k8s:')}"
        case "maxLength":
            return f"Too long: may not be more than {kind.limit} characters"
        case "minLength":
            return f"should be at least {kind.limit} chars long"
        case "maxItems" | "maxProperties":
            return f"Too many: must have at most {kind.limit} items"
        case "minItems":
            return f"should have at least {kind.limit} items"
        case "minProperties":
            return f"should have at least {kind.limit} properties"
        case "minimum":
            return f"should be greater than or equal to {kind.limit}"
        case "maximum":
            return f"should be less than or equal to {kind.limit}"
        case "exclusiveMinimum":
            return f"should be greater than {kind.limit}"
        case "exclusiveMaximum":
            return f"should be less than {kind.limit}"
        case "multipleOf":
            return f"should be a multiple of {kind.multiple_of}"
        case "custom":
            return str(kind.message)
    return _OTHER_WORDS.get(kind.name, "does not fit the schema")


def _types(error: Error) -> str:
    kind: Any = error.kind
    types = [name for name in kind.types if name != "null"]
    return ",".join(types)


_OTHER_WORDS = {
    "anyOf": "must validate at least one schema (anyOf)",
    "oneOf": "must validate one and only one schema (oneOf)",
    "not": "must not validate the schema (not)",
    "uniqueItems": "shouldn't contain duplicates",
    "additionalProperties": "holds keys that are forbidden",
}
