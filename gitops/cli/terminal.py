"""What commands print: findings with their source line, and the consoles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from gitops.cli.exits import Exit

if TYPE_CHECKING:
    from gitops.model.findings import Finding

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_GOOD = ("Synced", "Ready", "ACTIVE", "Completed", "Reachable", "Removed")
_BAD = ("Refused", "Blocked", "Failed", "ERROR", "Degraded", "DEGRADED", "Unreachable", "Missing", "Contested")
_COLOURS = {**dict.fromkeys(_GOOD, "green"), **dict.fromkeys(_BAD, "red")}
"""Colours of states of all kinds; what is neither good nor bad is yellow."""

_LONGEST = 160  # columns of a source line that are shown


def console(*, stderr: bool = False) -> Console:
    """Plain text where the output is no terminal; no markup and no emoji, as names may hold brackets and colons."""
    out = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not out.is_terminal:
        out.width = 1000  # a file or a pipe has no width: nothing is cut or wrapped there
    return out


def check_format(format: str) -> None:
    """Exit with a usage error unless the format is text or json."""
    if format not in ("text", "json"):
        typer.echo(f"gitops: --format {format}: choose text or json", err=True)
        raise typer.Exit(Exit.USAGE)


def state(word: str) -> Text:
    """A state in its colour."""
    return Text(word, style=_COLOURS.get(word, "yellow"))


def print_findings(findings: Iterable[Finding], read: Callable[[str], bytes], out: Console) -> None:
    """Each finding with file and line, the line itself with a mark, and the hint. `read` gives a file's bytes.

    A line that holds a secret, or may, is not shown: what `validate` prints ends up in the logs of CI.
    """
    files: dict[str, list[str]] = {}
    for finding in findings:
        style = _STYLES[str(finding.severity)]
        head = Text(printable(f"{finding.origin}: "), style="bold")
        head.append(f"{finding.severity} {finding.code}", style=style)
        head.append(printable(f": {finding.message}"))
        out.print(head, soft_wrap=True)
        if finding.origin.file not in files:
            files[finding.origin.file] = _lines(read, finding.origin.file)
        lines = files[finding.origin.file]
        if 0 < finding.origin.line <= len(lines) and not _secret(finding, lines[finding.origin.line - 1]):
            _print_line(finding, lines[finding.origin.line - 1], out, style)
        if finding.hint:
            out.print(Text(f"   hint: {finding.hint}", style="dim"), soft_wrap=True)


def summary(findings: Iterable[Finding]) -> str:
    """`2 errors, 1 warning`, or `no findings`."""
    counts = dict.fromkeys(_STYLES, 0)
    for finding in findings:
        counts[str(finding.severity)] += 1
    words = [_plural(count, word) for word, count in counts.items() if count]
    return ", ".join(words) or "no findings"


def count(number: int, word: str) -> str:
    """`1 unit`, `2 units`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def finding_json(finding: Finding) -> dict[str, Any]:
    """A finding as `--format json` has it; keys are stable."""
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "file": finding.origin.file,
        "line": finding.origin.line or None,
        "message": finding.message,
        "hint": finding.hint or None,
        "workload": str(finding.workload) if finding.workload else None,
        "object": str(finding.object) if finding.object else None,
        "path": list(finding.path),
    }


def print_json(value: Any) -> None:
    import json

    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _plural(number: int, severity: str) -> str:
    return f"{number} info" if severity == "info" else count(number, severity)


def _lines(read: Callable[[str], bytes], file: str) -> list[str]:
    try:
        return read(file).decode("utf-8", "replace").split("\n")
    except OSError:
        return []


def _secret(finding: Finding, line: str) -> bool:
    from gitops.policy import codes
    from gitops.policy.credentials import looks_like

    return finding.code in (codes.CREDENTIAL, codes.SECRET_DATA) or looks_like(line) is not None


def _print_line(finding: Finding, line: str, out: Console, style: str) -> None:
    shown = line.rstrip("\r")[:_LONGEST].replace("\t", " ")
    start, length = _marked(finding, shown)
    number = f"{finding.origin.line:>5} | "
    out.print(Text(number, style="dim") + Text(printable(shown)), soft_wrap=True)
    out.print(
        Text(" " * 5 + " | ", style="dim") + Text(" " * start + "^" * max(1, length), style=style), soft_wrap=True
    )


def _marked(finding: Finding, line: str) -> tuple[int, int]:
    """Column and width of what the finding is about: the key that its path ends in, else the whole text of the line."""
    key = next((str(part) for part in reversed(finding.path) if isinstance(part, str)), "")
    at = line.find(key) if key else -1
    if at >= 0:
        return at, len(key)
    text = line.strip()
    return len(line) - len(line.lstrip()), len(text)


def printable(text: str) -> str:
    """Text of others without control characters: none moves the cursor, colours, or begins a line of its own, which CI
    systems may read as a command."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
