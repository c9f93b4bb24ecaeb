"""What the documents of one file share while it is read: the budgets, the findings, and which line an editor shows."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from gitops.manifests import codes
from gitops.manifests.lines import Path, bounded
from gitops.model.catalogue import CATALOGUE, finding
from gitops.model.findings import Finding, Origin, Severity

_BREAK = re.compile("[\n\x85\u2028\u2029]")
_ODD_BREAKS = ("\x85", "\u2028", "\u2029")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may cost. Far above real manifests (the largest CRDs: 1.6 MB, 27,000 values, 36 levels)."""

    file_bytes: int = 4 * 1024 * 1024
    nodes: int = 300_000  # keys, values and containers of a file, aliases counted as often as they are used
    alias_characters: int = 4 * 1024 * 1024  # of texts and keys that aliases repeat
    depth: int = 200  # below Python's recursion limit with room for every later walk
    findings: int = 100  # errors of one file, and as many warnings


DEFAULT_LIMITS = Limits()


class UnreadableError(Exception):
    """The rest of the file cannot be read; the finding is in FileState.findings."""


class FileState:
    """The budgets that are left, and the findings so far."""

    def __init__(self, file: str, limits: Limits) -> None:
        self.file = file
        self.limits = limits
        self.nodes_left = limits.nodes
        self.characters_left = limits.alias_characters
        self.findings: list[Finding] = []
        self.odd_lines: Sequence[int] = ()
        self._recorded = dict.fromkeys(Severity, 0)

    def add(self, code: str, message: str, *, line: int, path: Path = ()) -> None:
        """Record a finding; `line` is an editor's. Beyond the limit warnings are dropped, and an error raises
        UnreadableError."""
        severity = CATALOGUE[code].severity
        if self._recorded[severity] >= self.limits.findings:
            if severity is not Severity.ERROR:
                return
            code, message, path = codes.TOO_MANY_FINDINGS, "further errors are not listed", ()
        self._recorded[severity] += 1
        self.findings.append(finding(code, message, Origin(self.file, line), path=bounded(path)))
        if code == codes.TOO_MANY_FINDINGS:
            raise UnreadableError

    def note_breaks(self, text: str) -> None:
        """Remember the line breaks of YAML 1.1 (NEL, LS, PS) that no editor, no Git and no forge counts as lines."""
        if any(character in text for character in _ODD_BREAKS):
            breaks = enumerate(_BREAK.finditer(text), start=2)
            self.odd_lines = array("I", (line for line, found in breaks if found[0] != "\n"))

    def editor_line(self, line: int) -> int:
        """The line that editors show, from the one that libyaml counted; both from 1."""
        return line - bisect_right(self.odd_lines, line) if self.odd_lines else line
