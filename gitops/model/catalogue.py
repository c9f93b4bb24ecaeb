"""The catalogue of findings: one list of codes, used alike by CLI, daemon, previews and docs/findings.md.

Codes are never reused or renumbered. GO1xxx reading, GO2xxx documents, GO3xxx overlays, GO4xxx policy and placement,
GO5xxx across units.
"""

from __future__ import annotations

from dataclasses import dataclass

from gitops.model.findings import Finding, Origin, Severity
from gitops.model.identity import ObjectRef, WorkloadRef

MESSAGE_LIMIT = 1000
"""Characters of a message: it quotes names and keys of the author's, which may have any length."""


@dataclass(frozen=True, slots=True)
class CatalogueEntry:
    """What is said about a code whatever the place: `hint` what to do, `example` one line of what triggers it. Both may
    hold code between backticks."""

    code: str
    severity: Severity
    title: str
    hint: str
    example: str

    @property
    def heading(self) -> str:
        """The title with a capital, unless it begins with a name: `generateName`, `gitops.yaml`."""
        first = self.title.partition(" ")[0]
        plain = first.isalpha() and first.islower() and len(first) > 1
        return self.title[:1].upper() + self.title[1:] if plain else self.title


CATALOGUE: dict[str, CatalogueEntry] = {}


def define(code: str, severity: Severity, title: str, hint: str, example: str) -> str:
    """Add a code; returns it, so that modules keep it as a constant."""
    if code in CATALOGUE:
        raise ValueError(f"finding {code} is defined twice")
    CATALOGUE[code] = CatalogueEntry(code, severity, title, hint, example)
    return code


def finding(
    code: str,
    message: str,
    origin: Origin,
    *,
    object: ObjectRef | None = None,
    workload: WorkloadRef | None = None,
    path: tuple[str | int, ...] = (),
    hint: str | None = None,
) -> Finding:
    """A finding of a catalogued code. Raises KeyError for a code that is not in the catalogue."""
    entry = CATALOGUE[code]
    return Finding(
        origin=origin,
        code=code,
        severity=entry.severity,
        message=message if len(message) <= MESSAGE_LIMIT else f"{message[: MESSAGE_LIMIT - 1]}…",
        hint=entry.hint if hint is None else hint,
        object=object,
        workload=workload,
        path=path,
    )
