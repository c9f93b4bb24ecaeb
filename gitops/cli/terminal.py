"""What commands print: findings with their source line, and the consoles."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.text import Text

from gitops.readiness.texts import printable, without_credentials

if TYPE_CHECKING:
    from gitops.model.findings import Finding, Origin

_STYLES = {"error": "bold red", "warning": "yellow", "info": "cyan"}
_GOOD = ("Synced", "Ready", "ACTIVE", "Completed", "Reachable", "Removed")
_BAD = (
    "Refused",
    "NeedsRecreate",
    "Blocked",
    "Failed",
    "ERROR",
    "Degraded",
    "DEGRADED",
    "Unreachable",
    "Missing",
    "Contested",
)
_COLOURS = {**dict.fromkeys(_GOOD, "green"), **dict.fromkeys(_BAD, "red")}
"""Colours of states of all kinds; what is neither good nor bad is yellow."""

_LONGEST = 160  # characters of a source line that are shown

_A_SECRET = re.compile(r"\bkind[\"']?\s*:\s*[\"']?Secret\b|\bsecrets[\"']?\s*:")


def console(*, stderr: bool = False) -> Console:
    """Plain text where the output is no terminal; no markup and no emoji, as names may hold brackets and colons."""
    out = Console(stderr=stderr, markup=False, highlight=False, emoji=False)
    if not out.is_terminal:
        out.width = 1000  # a file or a pipe has no width: nothing is cut or wrapped there
    return out


def state(word: str) -> Text:
    """A state in its colour."""
    return Text(word, style=_COLOURS.get(word, "yellow"))


def print_findings(findings: Sequence[Finding], read: Callable[[str], bytes], out: Console) -> None:
    """Each finding with file and line, the line itself with a mark, and the hint. `read` gives a file's bytes.

    No line of a file that holds a secret is shown: what `validate` prints ends up in the logs of CI, and a broken line
    of a Secret looks like any other.
    """
    from gitops.policy import codes

    secret = (codes.CREDENTIAL, codes.SECRET_DATA, codes.INLINE_SECRETS)
    files: dict[str, list[str]] = {finding.origin.file: [] for finding in findings if finding.code in secret}
    for finding in findings:
        style = _STYLES[str(finding.severity)]
        head = Text(printable(f"{finding.origin}: "), style="bold")
        head.append(f"{finding.severity} {finding.code}", style=style)
        head.append(printable(f": {without_credentials(finding.message)}"))
        out.print(head, soft_wrap=True)
        if finding.origin.file not in files:
            files[finding.origin.file] = _lines(read, finding.origin.file)
        lines = files[finding.origin.file]
        if 0 < finding.origin.line <= len(lines):
            _print_line(finding, lines[finding.origin.line - 1], out, style)
        if finding.hint:
            out.print(Text(printable(f"   hint: {finding.hint}"), style="dim"), soft_wrap=True)


def print_source(origin: Origin, read: Callable[[str], bytes], out: Console) -> None:
    """The line of a place, when it may be shown."""
    lines = _lines(read, origin.file)
    if 0 < origin.line <= len(lines):
        line = printable(lines[origin.line - 1].rstrip("\r")[:_LONGEST].replace("\t", " "))
        out.print(Text(f"{origin.line:>9} | ", style="dim") + Text(line), soft_wrap=True)


def count(number: int, word: str) -> str:
    """`1 unit`, `2 units`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def print_json(value: Any) -> None:
    import json

    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _lines(read: Callable[[str], bytes], file: str) -> list[str]:
    """Lines of a file that may be shown: of one that holds a Secret or a credential, or is no text, none."""
    from gitops.policy.credentials import looks_like

    try:
        text = read(file).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return []
    return [] if _A_SECRET.search(text) or looks_like(text) is not None else text.split("\n")


def _print_line(finding: Finding, line: str, out: Console, style: str) -> None:
    """The line, and a mark below it: columns of a terminal are counted, in which a wide character takes two."""
    from rich.cells import cell_len

    shown = printable(line.rstrip("\r")[:_LONGEST].replace("\t", " "))
    start, end = _marked(finding, shown)
    number = f"{finding.origin.line:>5} | "
    mark = " " * cell_len(shown[:start]) + "^" * max(1, cell_len(shown[start:end]))
    out.print(Text(number, style="dim") + Text(shown), soft_wrap=True)
    out.print(Text(" " * 5 + " | ", style="dim") + Text(mark, style=style), soft_wrap=True)


def _marked(finding: Finding, line: str) -> tuple[int, int]:
    """From where to where: the key that the finding's path ends in, when the line has it, else the whole text."""
    key = next((part for part in reversed(finding.path) if isinstance(part, str)), "")
    found = re.search(rf"(?<![\w./-])([\"']?){re.escape(key)}\1\s*:", line) if key else None
    if found is not None:
        return found.start(), found.start() + len(found[0].rstrip(": "))
    return len(line) - len(line.lstrip()), len(line.rstrip())
