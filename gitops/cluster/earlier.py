"""What a live object holds of the fields that we declare or declared: the earlier state of an update.

Comparing declarations tells what changed without what the server and the operators filled in: a default is no change.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gitops.cluster.comparison import Comparison, DifferenceKind, FieldDifference
from gitops.cluster.managed_fields import ElementKind, OwnedPath
from gitops.cluster.values import ABSENT
from gitops.manifests.canonical import copy_json
from gitops.manifests.lines import Path


def earlier_state(declared: Mapping[str, Any], live: Mapping[str, Any], compared: Comparison) -> dict[str, Any]:
    """The declared object with the live values where they differ, and with what we own and declare no more. Equal
    values keep the declared form, so that `1` and `"1"` of a quantity are no change."""
    before: dict[str, Any] = copy_json(dict(declared))
    for difference in sorted(compared.differences, key=lambda d: _order(d.path), reverse=True):
        _put_back(before, difference)
    for owned in compared.extra:
        _restore(before, live, owned)
    return before


def _order(path: Path) -> list[tuple[int, str]]:
    """Items of a list by their number: later ones are removed first."""
    return [(part, "") if isinstance(part, int) else (-1, part) for part in path]


def _put_back(before: Any, difference: FieldDifference) -> None:
    if difference.masked or difference.kind not in (DifferenceKind.CHANGED, DifferenceKind.MISSING):
        return
    *parents, last = difference.path
    for part in parents:
        before = before[part]
    if difference.live is ABSENT or difference.kind is DifferenceKind.MISSING:
        del before[last]
    else:
        before[last] = copy_json(difference.live)


def _restore(before: Any, live: Any, owned: OwnedPath) -> None:
    """Puts a field that is declared no more where it was; what cannot be found in both is passed over."""
    for place, element in enumerate(owned):
        if element.kind is ElementKind.FIELD and isinstance(before, dict) and isinstance(live, dict):
            name = element.value
            if name not in live:
                return
            if name not in before:
                before[name] = copy_json(live[name])
                return
            before, live = before[name], live[name]
        elif element.kind is ElementKind.KEY and isinstance(before, list) and isinstance(live, list):
            found, there = next(_item(live, element.value), None), next(_item(before, element.value), None)
            if found is not None and there is None and place == len(owned) - 1:
                before.append(copy_json(found))
            if found is None or there is None:
                return
            before, live = there, found
        else:
            return


def _item(items: list[Any], key: tuple[tuple[str, Any], ...]) -> Iterator[dict[str, Any]]:
    for item in items:
        if isinstance(item, dict) and all(item.get(name) == value for name, value in key):
            yield item
