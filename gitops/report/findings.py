"""Findings for machines, and what their reports share: order and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from gitops.model.findings import Finding, Severity
from gitops.readiness.texts import without_credentials

_RANKS = {severity: rank for rank, severity in enumerate(Severity)}


def worst_first(findings: Iterable[Finding]) -> list[Finding]:
    """By severity; among equals the given order (by file and line) stays."""
    return sorted(findings, key=lambda finding: _RANKS[finding.severity])


def summary(findings: Iterable[Finding]) -> str:
    """`2 errors, 1 warning`, or `no findings`."""
    counts = Counter(finding.severity for finding in findings)
    words = [_counted(counts[severity], severity) for severity in Severity if counts[severity]]
    return ", ".join(words) or "no findings"


def _counted(number: int, severity: Severity) -> str:
    return f"{number} {severity}" if number == 1 or severity is Severity.INFO else f"{number} {severity}s"


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as `--format json` has it; keys are stable."""
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "file": finding.origin.file,
        "line": finding.origin.line or None,
        "message": without_credentials(finding.message),
        "hint": finding.hint or None,
        "workload": str(finding.workload) if finding.workload else None,
        "object": str(finding.object) if finding.object else None,
        "path": [without_credentials(part) if isinstance(part, str) else part for part in finding.path],
    }
