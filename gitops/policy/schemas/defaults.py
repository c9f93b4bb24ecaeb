"""Defaults of a structural schema, as the API server fills them in before it validates (KEP-575)."""

from __future__ import annotations

from typing import Any

from gitops.manifests.canonical import copy_json
from gitops.policy.schemas.reading import Schema


def fill_defaults(value: Any, schema: Schema) -> None:
    """Into `value` itself: for what is not there, and for nulls that may not be there."""
    if isinstance(value, dict):
        fields, others = schema.get("properties", {}), schema.get("additionalProperties")
        for name, child in fields.items():
            if child.get("default") is not None and (name not in value or _is_forbidden_null(value[name], child)):
                value[name] = copy_json(child["default"])
        for key in value:
            child = fields.get(key, others)
            if isinstance(child, dict):
                if key not in fields and _is_forbidden_null(value[key], child):
                    value[key] = copy_json(child.get("default"))
                fill_defaults(value[key], child)
    elif isinstance(value, list) and "items" in schema:
        items = schema["items"]
        for at, item in enumerate(value):
            if _is_forbidden_null(item, items):
                value[at] = copy_json(items.get("default"))
            fill_defaults(value[at], items)


def _is_forbidden_null(value: object, schema: Schema) -> bool:
    return value is None and not schema.get("nullable")
