"""Exit codes: what a script learns from a command. docs/exit-codes.md is generated from this list."""

from __future__ import annotations

import enum


class Exit(enum.IntEnum):
    """Exit code of a command, with its meaning in words."""

    OK = 0
    FINDINGS = 1
    USAGE = 2
    CHANGES = 3
    INCOMPLETE = 4
    DEFECT = 70
    INTERRUPTED = 130

    @property
    def meaning(self) -> str:
        return _MEANINGS[self]


_MEANINGS = {
    Exit.OK: "Done, and nothing is wrong.",
    Exit.FINDINGS: "The manifests have errors: `validate`, `plan` and `apply --once` print them; `rbac check`: rights "
    "that are refused.",
    Exit.USAGE: "The command could not start: wrong arguments or settings, an unreadable folder or repository; "
    "`rbac check`: a file or the roles of the cluster could not be read.",
    Exit.CHANGES: "`plan --exit-code`: no errors, and something would change; `drift`: something differs from Git.",
    Exit.INCOMPLETE: "`apply --once`: a unit was refused or waits, a cluster did not answer, or the status was not "
    "pushed; `plan`, `drift`, `schemas pull`: a cluster could not be asked; `status`: not every unit is ready; "
    "`status`, `drift`: nothing is reported of what was asked for.",
    Exit.DEFECT: "A defect of gitops itself, with a traceback: please report it.",
    Exit.INTERRUPTED: "Stopped by Ctrl-C; `run`: by a second one, before a clean stop was done.",
}
