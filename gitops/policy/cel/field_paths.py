"""`fieldPath` of a rule: `.spec.names['a.b']`, relative to the value that the rule is on."""

from __future__ import annotations

import re

from gitops.manifests.lines import Path
from gitops.policy.cel.values import Schema, values_schema

_STEP = re.compile(r"\.([^.\[\]']+)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


def parse_field_path(text: str, schema: Schema) -> Path:
    """The path; () for a text that is none, or that the schema does not know: a server ignores it, too."""
    path: list[str | int] = []
    at = 0
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None:
            return ()
        name = found[1] if found[1] is not None else re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[1]), found[2])
        properties = schema.get("properties")
        child = properties.get(name) if properties else values_schema(schema)
        if child is None:
            return ()
        path.append(name)
        schema, at = child, found.end()
    return tuple(path)
