"""Findings as Markdown: order, counts, bounds; what text may do in it is in test_markdown.py."""

from __future__ import annotations

from gitops.cli.reference import load_codes
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.report.findings_markdown import ROW_LIMIT, SIZE_LIMIT, render_markdown

load_codes()
ERROR, WARNING, INFO = "GO2004", "GO2106", "GO2010"


def make(code: str, file: str = "a.yaml", line: int = 1, message: str = "wrong") -> Finding:
    return finding(code, message, Origin(file, line))


def rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")][1:]


def test_worst_first_then_by_place() -> None:
    text = render_markdown([make(INFO, "a.yaml"), make(ERROR, "b.yaml", 2), make(ERROR, "b.yaml", 10), make(WARNING)])
    assert text.startswith("### gitops: 2 errors, 1 warning, 1 info\n\n| severity |")
    assert [row.split(" | ")[:3] for row in rows(text)] == [
        ["| error", "`b.yaml:2`", ERROR],
        ["| error", "`b.yaml:10`", ERROR],
        ["| warning", "`a.yaml:1`", WARNING],
        ["| info", "`a.yaml:1`", INFO],
    ]


def test_a_finding_about_a_whole_file_has_no_line() -> None:
    assert "| `a.yaml` |" in render_markdown([make(ERROR, line=0)])


def test_without_findings_there_is_no_table() -> None:
    assert render_markdown([]) == "### gitops: no findings\n"


def test_many_findings_are_cut_and_counted() -> None:
    text = render_markdown([make(ERROR, line=n) for n in range(1, ROW_LIMIT + 31)])
    assert len(rows(text)) == ROW_LIMIT
    assert text.endswith("\n… and 30 more.\n")


def test_long_findings_stay_below_what_a_comment_may_hold() -> None:
    text = render_markdown([make(ERROR, f"{'d' * 300}/{n}.yaml", n, "|" * 900) for n in range(ROW_LIMIT)])
    left = ROW_LIMIT - len(rows(text))
    assert left > 0
    assert len(text) < SIZE_LIMIT + 1000
    assert text.endswith(f"\n… and {left} more.\n")


def test_the_same_findings_give_the_same_text() -> None:
    findings = [make(ERROR, line=n) for n in (3, 1, 2)]
    assert render_markdown(findings) == render_markdown(list(findings))
