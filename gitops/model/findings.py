"""Findings: what is wrong with what people wrote, as values.

A finding is never an exception: all findings of all files are collected in one run, and one bad workload never hides
another. Codes are stable; gitops/model/catalogue.py lists them and docs/findings.md is generated from that list.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass, field

from gitops.model.identity import ObjectRef, WorkloadRef


class Severity(enum.StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True, order=True)
class Origin:
    """A place in the repository: path from its root, line counted from 1 (0 = the file as a whole)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


@dataclass(frozen=True, slots=True, order=True)
class Finding:
    """One thing to tell the author. `code` is from the catalogue, which fixes severity and hint.

    `workload` is whose units this holds at their last good commit when the severity is ERROR; None means the finding
    concerns the repository as a whole.
    """

    origin: Origin
    code: str
    severity: Severity
    message: str
    hint: str = ""
    object: ObjectRef | None = None
    workload: WorkloadRef | None = None
    path: tuple[str | int, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.origin}: {self.severity} {self.code}: {self.message}"


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether any of them is an error."""
    return any(finding.severity is Severity.ERROR for finding in findings)
