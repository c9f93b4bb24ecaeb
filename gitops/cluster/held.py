"""Held: who of a collection is known to exist, and at which resourceVersion. No object is kept.

So a list can tell what vanished while nobody looked, and an event that was delivered before is known as such.
resourceVersions are compared for equality only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

from gitops.cluster.watch_events import JsonObject
from gitops.model.identity import ObjectRef

Key = tuple[str, str]
"""(namespace, name)"""


class Held:
    def __init__(self) -> None:
        self._known: dict[Key, tuple[str, str]] = {}  # → (uid, resourceVersion)

    def __len__(self) -> int:
        return len(self._known)

    def holds(self, ref: ObjectRef, uid: str) -> bool:
        """Is this very object known to exist?"""
        return self._known.get((ref.namespace, ref.name), ("", ""))[0] == uid

    def put(self, obj: JsonObject) -> tuple[Key, bool]:
        """The object exists: its key, and whether it was not known so before."""
        key, state = _identity(obj)
        news = self._known.get(key) != state
        if news:
            self._known[key] = state
        return key, news

    def remove(self, obj: JsonObject) -> None:
        """The object went; another one of its name that came after it stays."""
        key, (uid, _) = _identity(obj)
        if self._known.get(key, ("", ""))[0] == uid:
            del self._known[key]

    def keep(self, listed: set[Key]) -> Iterator[tuple[Key, str]]:
        """A list is complete and has these: key and uid of all others, which are known no more."""
        for key in [key for key in self._known if key not in listed]:
            uid, _ = self._known.pop(key)
            yield key, uid


def _identity(obj: JsonObject) -> tuple[Key, tuple[str, str]]:
    metadata = obj.get("metadata") or {}
    key = (sys.intern(metadata.get("namespace", "")), metadata.get("name", ""))
    return key, (metadata.get("uid", ""), metadata.get("resourceVersion", ""))
