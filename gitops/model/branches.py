"""Names of Git branches, as documents and settings have them."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

_REFUSED = re.compile(
    r"""[\x00-\x20\x7f~^:?*\[\\+]  # control characters, revisions and refspecs
    | \.\. | @\{ | // | ^@\Z
    | (?:^|/)\. | \.lock(?:/|\Z) | [./]\Z
    | ^[-/] | ^refs/""",
    re.ASCII | re.VERBOSE,
)


def is_branch_name(name: str) -> bool:
    """Whether Git takes it as the name of a branch (git-check-ref-format(1)), and no program as anything else: no sign
    of a refspec, no leading dash, no full name of a reference."""
    return bool(name) and len(name) <= 244 and _REFUSED.search(name) is None


def _checked(name: str) -> str:
    if not is_branch_name(name):
        raise ValueError("not the name of a branch, such as gitops-status")
    return name


BranchName = Annotated[str, StringConstraints(min_length=1, max_length=244), AfterValidator(_checked)]
