"""JSON Merge Patch, RFC 7386: null removes, objects merge, anything else replaces."""

from __future__ import annotations

from typing import Any

from gitops.manifests.canonical import copy_json


def merge_patch(base: Any, patch: Any) -> Any:
    """The base with the patch merged in. Shares nothing with either: changing the result changes neither.

    Values below 200 levels, as the reader guarantees.
    """
    if not isinstance(patch, dict):
        return copy_json(patch)
    target: dict[str, Any] = copy_json(base) if isinstance(base, dict) else {}
    _merge_into(target, patch)
    return target


def _merge_into(target: dict[str, Any], patch: dict[str, Any]) -> None:
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        elif isinstance(value, dict):
            below = target.get(key)
            if not isinstance(below, dict):  # "a non-object target counts as empty"
                below = target[key] = {}
            _merge_into(below, value)
        else:
            target[key] = copy_json(value)
