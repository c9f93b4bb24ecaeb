"""Paths that workload documents write: relative, inside the workload's own folder, or refused.

No URL, no `..`, no absolute path and no other host is ever resolved (cases.md X03): a path only selects among the files
that the tree has in that folder.
"""

from __future__ import annotations

import re

from gitops.plan.layout import MANIFEST_ENDINGS, WorkloadFolder

_REMOTE = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*::?|^[^/]*@[^/]*:|://")


def refusal(path: str) -> str | None:
    """Why a written path is not a plain relative one; None when it is."""
    if _REMOTE.search(path):
        return "it points outside the repository"
    if "\\" in path or "\0" in path:
        return "it holds a backslash or NUL"
    if "*" in path or "?" in path:
        return "it is a pattern; a folder names every file below it"
    if path.startswith(("/", "~", "-")):
        return f"it begins with {path[0]}"
    parts = path.removesuffix("/").split("/")
    if any(part in ("", "..") for part in parts):
        return "it holds `..` or an empty part"
    if "." in parts and path not in (".", "./"):
        return "it holds `.`"
    return None


def select(folder: WorkloadFolder, path: str) -> list[str] | None:
    """Paths of the tree that a written path names: a file, or every manifest below a folder, sorted.

    None when there is neither. An empty folder cannot exist in Git; a folder without manifests gives an empty list.
    """
    full = f"{folder.root}/{path.removesuffix('/')}" if path not in (".", "./") else folder.root
    if full in folder.entries and not path.endswith("/"):
        return [full]
    below = [p for p in folder.entries if p.startswith(f"{full}/")]
    if not below:
        return None
    return sorted(p for p in below if p.endswith(MANIFEST_ENDINGS))
