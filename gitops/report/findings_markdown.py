"""Findings as Markdown: for a comment on a pull request or the summary of a CI job."""

from __future__ import annotations

from collections.abc import Sequence

from gitops.model.findings import Finding
from gitops.report.findings import summary, worst_first
from gitops.report.markdown import code, inert

ROW_LIMIT = 100
SIZE_LIMIT = 60_000
"""Characters of all rows: GitHub takes no comment above 65,536, and refuses it whole."""


def render_markdown(findings: Sequence[Finding]) -> str:
    """A headline with counts and one table, worst first, then by file and line; ends with what was left out."""
    lines = [f"### gitops: {summary(findings)}", ""]
    rows = _bounded(worst_first(findings))
    if rows:
        lines += ["| severity | where | code | what | what to do |", "|---|---|---|---|---|", *rows, ""]
    if len(findings) > len(rows):
        lines += [f"… and {len(findings) - len(rows)} more.", ""]
    return "\n".join(lines)


def _bounded(findings: Sequence[Finding]) -> list[str]:
    rows: list[str] = []
    left = SIZE_LIMIT
    for finding in findings[:ROW_LIMIT]:
        row = _row(finding)
        left -= len(row) + 1
        if left < 0:
            break
        rows.append(row)
    return rows


def _row(finding: Finding) -> str:
    line = f":{finding.origin.line}" if finding.origin.line else ""
    where = f"`{code(finding.origin.file)}{line}`"
    return (
        f"| {finding.severity} | {where} | {finding.code} | {inert(finding.message)} | {inert(finding.hint) or '–'} |"
    )
