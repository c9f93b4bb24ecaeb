"""Names that must differ within a list."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def repeated(names: Iterable[str], *, fold: bool = False) -> Iterator[tuple[int, str]]:
    """(position, name) of every name that stands earlier in the list too; with `fold` letter case does not count."""
    seen: set[str] = set()
    for position, name in enumerate(names):
        key = name.casefold() if fold else name
        if key in seen:
            yield position, name
        seen.add(key)
