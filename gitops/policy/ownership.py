"""The ownership table: the answer to "another manager writes this field too", by manager, subresource, kind and path.

Data (policies/ownership/*.yaml, and files that the settings name, which come first); the first rule that is about a
field decides. An object's annotation `gitops/conflicts` says what becomes of fields that no rule is about. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import translate
from functools import cache, lru_cache
from importlib.resources.abc import Traversable
from typing import Any, cast

from gitops.manifests.lines import Path
from gitops.manifests.reading import read_documents
from gitops.model.identity import GroupKind, ObjectRef
from gitops.model.ownership import Answer, OwnershipRule, OwnershipTable, Scaler
from gitops.policy.annotations import CONFLICT_ANSWERS, CONFLICTS
from gitops.policy.registry import shipped_folder

MOST_MANAGERS = 4096
"""Managers of which it is remembered which rules are about them: whoever writes to a cluster chooses its name."""

_DEPLOYMENT = GroupKind("apps", "Deployment")


class Ownership:
    """The rules in their order. Immutable."""

    def __init__(self, tables: Iterable[OwnershipTable] = ()) -> None:
        self.tables = tuple(tables)
        self.scalers: Mapping[GroupKind, Scaler] = {
            GroupKind(s.group, s.kind): s for table in self.tables for s in table.spec.scalers
        }
        self._rules = tuple(rule for table in self.tables for rule in table.spec.rules)
        self.rules_for = lru_cache(maxsize=MOST_MANAGERS)(self._rules_for)
        """(manager, subresource, kind) → the rules about them, in order."""
        self.concerns = lru_cache(maxsize=MOST_MANAGERS)(self._concerns)
        """(manager, subresource, kind) → whether any rule gives them something, or asks."""
        self._controllers = tuple(name for table in self.tables for name in table.spec.controllers)
        self.by_hand = lru_cache(maxsize=MOST_MANAGERS)(self._by_hand)
        """manager → whether what it adds to an object is something that somebody did, and no controller's work."""

    @classmethod
    def load(cls, folder: Traversable) -> Ownership:
        """Read every *.yaml of a folder, in the order of names. Trusted data: raises ValueError for a wrong file."""
        tables: list[OwnershipTable] = []
        for file in sorted(folder.iterdir(), key=lambda f: f.name):
            result = read_documents(file.read_bytes(), file=file.name)
            if result.findings:
                raise ValueError("; ".join(map(str, result.findings)))
            tables += [OwnershipTable.model_validate(document.body) for document in result.documents]
        return cls(tables)

    @classmethod
    def shipped(cls) -> Ownership:
        """The tables that ship with this version (read once per process)."""
        return _shipped()

    def extended(self, tables: Iterable[OwnershipTable]) -> Ownership:
        """These tables before the present ones."""
        return Ownership((*tables, *self.tables))

    def answer(
        self, kind: GroupKind, manager: str, subresource: str, path: Path, *, default: Answer, scaled: bool
    ) -> Answer:
        """What becomes of the field at `path` that this manager owns; `scaled`: an autoscaler targets the object, or
        nobody can tell."""
        for rule in self.rules_for(manager, subresource, kind):
            if rule.whileScaled and not scaled:
                continue
            if not rule.paths or any(_covers(pattern, path) for pattern in rule.paths):
                return rule.answer
        return default

    def injected(self, kind: GroupKind) -> list[str]:
        """Paths of this kind that are whoever's writes them."""
        rules = self.rules_for("", "", kind)
        return [path for rule in rules if (rule.managers, rule.answer) == (["*"], "yield") for path in rule.paths]

    def target(self, body: Mapping[str, Any]) -> ObjectRef | None:
        """What an object scales; None when it is no scaler, or names nothing."""
        group = str(body.get("apiVersion", "")).rpartition("/")[0]
        scaler = self.scalers.get(GroupKind(group, str(body.get("kind", ""))))
        if scaler is None:
            return None
        named: Any = body
        for part in parts(scaler.target):
            named = named.get(part) if isinstance(named, dict) else None
        if not isinstance(named, dict) or not isinstance(named.get("name"), str):
            return None
        kind = str(named.get("kind") or _DEPLOYMENT.kind)
        version = named.get("apiVersion")
        target_group = _DEPLOYMENT.group if not isinstance(version, str) else version.rpartition("/")[0]
        namespace = (body.get("metadata") or {}).get("namespace") or ""
        return ObjectRef(target_group, kind, str(namespace), named["name"])

    def _rules_for(self, manager: str, subresource: str, kind: GroupKind) -> tuple[OwnershipRule, ...]:
        return tuple(
            rule
            for rule in self._rules
            if rule.subresource in ("", subresource)
            and (not rule.kinds or any((k.group, k.kind) == (kind.group, kind.kind) for k in rule.kinds))
            and any(_glob(name).match(manager) for name in rule.managers)
        )

    def _concerns(self, manager: str, subresource: str, kind: GroupKind) -> bool:
        return any(rule.answer != "take" for rule in self.rules_for(manager, subresource, kind))

    def _by_hand(self, manager: str) -> bool:
        return not any(_glob(name).match(manager) for name in self._controllers)


def default_answer(body: Mapping[str, Any]) -> Answer:
    """What an object's annotation says of fields that no rule is about; `take` without one."""
    metadata = body.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    found = annotations.get(CONFLICTS) if isinstance(annotations, dict) else None
    return cast(Answer, found) if found in CONFLICT_ANSWERS else "take"


@cache
def parts(pattern: str) -> Sequence[str]:
    """The parts of a path pattern (RFC 6901)."""
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in pattern.split("/")[1:])


def _covers(pattern: str, path: Path) -> bool:
    """Whether a pattern names the field at `path` or one around it."""
    wanted = parts(pattern)
    return len(path) >= len(wanted) and all(
        want == "*" or want == str(have) for want, have in zip(wanted, path, strict=False)
    )


@cache
def _glob(text: str) -> re.Pattern[str]:
    return re.compile(translate(text))


@cache
def _shipped() -> Ownership:
    return Ownership.load(shipped_folder("policies") / "ownership")
