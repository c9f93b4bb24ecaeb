"""docs/json.md names every key that the commands print, and none besides."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs/json.md"
MAPS = frozenset({"clusters", "units", "unreachable"})
"""Below these the keys are names of the repository."""
ROLE = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: r}
rules:
  - {apiGroups: [""], resources: [secrets], verbs: [get]}
  - {apiGroups: [""], resources: [pods], verbs: ["*"]}
"""
CHANGES = {"change", "problem", "fuse", "fields", "live", "declared", "manager", "path"}
"""Printed with a cluster only (tests/cli/test_live.py)."""


def keys(value: Any, name: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for key, child in value.items():
            if name not in MAPS:
                yield key
            yield from keys(child, "" if name in MAPS else key)
    elif isinstance(value, list):
        for child in value:
            yield from keys(child)


def told(title: str) -> set[str]:
    """Words in code that a section of the page names, but for values and examples."""
    sections = dict(part.partition("\n")[::2] for part in PAGE.read_text().split("\n## "))
    return set(re.findall(r"`([a-zA-Z]+)`", sections[title]))


def test_every_key_is_documented(gitops: Any, template: Path, tmp_path: Path) -> None:
    (tmp_path / "role.yaml").write_text(ROLE)
    finding = told("A finding")
    runs = {
        "gitops validate": ("validate", template),
        "gitops plan": ("plan", template),
        "gitops rbac check": ("rbac", "check", tmp_path / "role.yaml"),
    }
    for title, arguments in runs.items():
        printed = set(keys(json.loads(gitops(*arguments, "-f", "json").out)))
        values = {"valid", "invalid", "unverified", "create", "update", "unchanged", "delete", "keep", "unknown"}
        named = told(title) - values
        assert printed - finding <= named, title
        assert named - printed <= (CHANGES if title == "gitops plan" else set()), title
