"""docs/json.md names every key that the commands print, and none besides."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gitops.cluster.additions import Addition, Additions
from gitops.cluster.comparison import DifferenceKind
from gitops.model.findings import Origin
from gitops.model.identity import ObjectRef, UnitKey
from gitops.report.drift import DriftKind, DriftRecord, Repair
from gitops.report.drift_files import UnitDrift, render_drift
from gitops.report.paths import drift_path

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


GROUPS = {"by", "groups", "name", "times", "units", "files", "last"}
"""Printed with --by only (tests/cli/test_drift.py); `by` is in each record too."""
DONE = {"state", "applied", "repaired", "pruned", "problems", "object"}
"""Printed with a cluster that answers only (tests/e2e)."""


def reported(folder: Path) -> Path:
    """A folder of reports with a drift of which everything is told."""
    moment = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
    ref, unit = ObjectRef("apps", "Deployment", "shop", "web"), UnitKey.parse("bundle/app@dgx-a")
    drift = DriftRecord(
        unit=unit,
        object=ref,
        kind=DriftKind.CHANGED,
        path="spec.replicas",
        field=(),
        declared=2,
        declared_at=Origin("bundles/app/web.yaml", 3),
        live=7,
        manager="kubectl",
        operation="Update",
        subresource="scale",
        time="2026-03-01T12:00:00Z",
        detected_at=moment,
        repaired=Repair.REPAIRED,
        inferred=True,
        still_ours=True,
        masked=True,
        detail=DifferenceKind.MISSING,
        count=2,
        first_at=moment,
        ended_at=moment,
    )
    added = {ref: Additions((Addition("metadata.labels.x", "kubectl-label", "Update", "2026-03-01T12:00:00Z"),))}
    file = folder / "status" / drift_path(unit)
    file.parent.mkdir(parents=True)
    file.write_bytes(render_drift(UnitDrift(unit, (drift,), added=added)))
    return folder


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
        "gitops drift": ("drift", "--path", template, "--state-dir", reported(tmp_path)),
        "gitops explain": ("explain", template, "ConfigMap/llama-chat-settings", "metadata.name"),
        "gitops apply": ("apply", "--once", "--path", template, "--state-dir", tmp_path, "--credentials-dir", tmp_path),
        "gitops rbac check": ("rbac", "check", tmp_path / "role.yaml"),
    }
    for title, arguments in runs.items():
        printed = set(keys(json.loads(gitops(*arguments, "-f", "json").out)))
        values = {"valid", "invalid", "unverified", "create", "update", "unchanged", "delete", "keep", "unknown"}
        values |= {*DriftKind, *Repair, *DifferenceKind}
        named = told(title) - (values - printed)
        assert printed - finding <= named, title
        elsewhere = {"gitops plan": CHANGES, "gitops drift": GROUPS, "gitops apply": DONE}.get(title, set())
        assert named - printed <= elsewhere, title
