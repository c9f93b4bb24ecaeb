"""Lists and sets."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from gitops.policy.cel.functions.declaring import LONGEST, NO_OVERLOAD, CallError, Function, GaveUpError, identity

_INT64 = 2**63


def _comparable(items: list[Any]) -> list[Any]:
    """Raises CallError for items that have no order among each other."""
    kinds = {_kind(item) for item in items}
    if len(kinds) > 1 or "" in kinds:
        raise CallError(NO_OVERLOAD)
    return items


def _kind(item: Any) -> str:
    if isinstance(item, bool):
        return "bool"
    if isinstance(item, int | float):
        return "number"
    return "" if item is None or isinstance(item, list | dict) else type(item).__name__


def _is_sorted(items: list[Any]) -> bool:
    return all(a <= b for a, b in pairwise(_comparable(items)))


def _sum(items: list[Any]) -> Any:
    if not items:
        return 0
    if not all(isinstance(item, int | float) and not isinstance(item, bool) for item in items):
        raise CallError(NO_OVERLOAD) if isinstance(items[0], str | bool) else GaveUpError("a sum of durations")
    total = sum(items)
    if isinstance(total, int) and not -_INT64 <= total < _INT64:
        raise CallError("integer overflow")
    return total


def _min(items: list[Any]) -> Any:
    if not items:
        raise CallError("min called on empty list")
    return min(_comparable(items))


def _max(items: list[Any]) -> Any:
    if not items:
        raise CallError("max called on empty list")
    return max(_comparable(items))


def _index(items: list[Any], item: Any) -> int:
    wanted = identity(item)
    return next((at for at, other in enumerate(items) if identity(other) == wanted), -1)


def _last_index(items: list[Any], item: Any) -> int:
    at = _index(items[::-1], item)
    return at if at < 0 else len(items) - 1 - at


def _slice(items: list[Any], start: int, end: int) -> list[Any]:
    if not 0 <= start <= end <= len(items):
        raise CallError("cannot slice")
    return items[start:end]


def _flatten(items: list[Any], depth: int = 1) -> list[Any]:
    if depth < 0:
        raise CallError("level must be non-negative")
    result: list[Any] = []
    for item in items:
        result += _flatten(item, depth - 1) if isinstance(item, list) and depth > 0 else [item]
        if len(result) > LONGEST:
            raise GaveUpError("a list becomes too long")
    return result


def _range(count: int) -> list[int]:
    if count > LONGEST:
        raise GaveUpError("a list becomes too long")
    return list(range(count))


def _distinct(items: list[Any]) -> list[Any]:
    first: dict[Any, Any] = {}
    for item in items:
        first.setdefault(identity(item), item)
    return list(first.values())


def _sort_by(pairs: list[Any]) -> list[Any]:
    """Target of the sortBy macro: [key, item] pairs → items by key."""
    _comparable([key for key, _ in pairs])
    return [item for _, item in sorted(pairs, key=lambda pair: pair[0])]


def _keys(value: list[Any] | dict[str, Any]) -> list[Any]:
    """What the first of two macro variables takes."""
    return list(value) if isinstance(value, dict) else list(range(len(value)))


def _map(pairs: list[Any]) -> dict[Any, Any]:
    return dict(pairs)


def _merge(maps: list[Any]) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for entry in maps:
        if not isinstance(entry, dict):
            raise CallError(NO_OVERLOAD)
        if result.keys() & entry.keys():
            raise CallError("insert failed: key already exists")
        result |= entry
    return result


def _ids(items: list[Any]) -> set[Any]:
    return set(map(identity, items))


FUNCTIONS = (
    Function("isSorted", ("list",), "bool", _is_sorted),
    Function("sum", ("list",), "dyn", _sum),
    Function("min", ("list",), "dyn", _min),
    Function("max", ("list",), "dyn", _max),
    Function("k8s_indexOf", ("list", "dyn"), "int", _index),
    Function("k8s_lastIndexOf", ("list", "dyn"), "int", _last_index),
    Function("slice", ("list", "int", "int"), "list", _slice),
    Function("flatten", ("list",), "list", _flatten),
    Function("flatten", ("list", "int"), "list", _flatten),
    Function("lists.range", ("int",), "list", _range, member=False),
    Function("distinct", ("list",), "list", _distinct),
    Function("reverse", ("list",), "list", lambda items: items[::-1]),
    Function("sort", ("list",), "list", lambda items: sorted(_comparable(items))),
    Function("k8s_keys", ("list",), "list", _keys, member=False),
    Function("k8s_keys", ("map",), "list", _keys, member=False),
    Function("k8s_map", ("list",), "map", _map, member=False),
    Function("k8s_merge", ("list",), "map", _merge, member=False),
    Function("k8s_sort_by", ("list",), "list", _sort_by, member=False),
    Function("sets.contains", ("list", "list"), "bool", lambda a, b: _ids(a) >= _ids(b), member=False),
    Function("sets.equivalent", ("list", "list"), "bool", lambda a, b: _ids(a) == _ids(b), member=False),
    Function("sets.intersects", ("list", "list"), "bool", lambda a, b: bool(_ids(a) & _ids(b)), member=False),
)
