"""Where things are written on the status branch.

Names come from people and may hold capitals or underscores, so two may differ in letter case only: whatever is not
plain lower case is folded and gets `+` and a digest of the real name (`+` is in no name). A path built here stays under
its folder on every file system: no separators, no `.git`, no device names of Windows, at most 255 bytes an element.
"""

from __future__ import annotations

import hashlib
import re

from gitops.model.identity import ClusterName, UnitKey, WorkloadRef

ROOT = "status"

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]{0,99}")
_ELEMENT = re.compile(r"[a-z0-9][a-z0-9._+-]{0,254}|README\.md")
_DEVICES = frozenset({"con", "prn", "aux", "nul", *(f"{d}{n}" for d in ("com", "lpt") for n in range(10))})


def safe_name(name: str) -> str:
    """One element of a path for any text: the name itself where that is safe, else folded with a digest."""
    if _PLAIN.fullmatch(name) and name not in _DEVICES:
        return name
    folded = re.sub(r"[^a-z0-9_-]+", "-", name.lower()).strip("-_")[:60].rstrip("-_") or "x"
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()
    return f"{folded}+{digest}"


def unit_path(key: UnitKey) -> str:
    """`status/units/dgx-a/function.llama-chat.h100-0.yaml`"""
    parts = [str(key.kind), safe_name(key.name)]
    if key.instance:
        parts.append(safe_name(key.instance))
    return checked(f"{ROOT}/units/{safe_name(key.cluster)}/{'.'.join(parts)}.yaml")


def workload_path(workload: WorkloadRef) -> str:
    """`status/functions/llama-chat.yaml`"""
    return checked(f"{ROOT}/{workload.kind}s/{safe_name(workload.name)}.yaml")


def cluster_path(name: ClusterName) -> str:
    """`status/clusters/dgx-a.yaml`"""
    return checked(f"{ROOT}/clusters/{safe_name(name)}.yaml")


def placements_path() -> str:
    return f"{ROOT}/placements.yaml"


def readme_path() -> str:
    return f"{ROOT}/README.md"


def checked(path: str) -> str:
    """The path itself. Raises ValueError when an element of it is not one that we write."""
    elements = path.split("/")
    if elements[0] != ROOT or not all(_ELEMENT.fullmatch(e) for e in elements) or ".." in path:
        raise ValueError(f"not a path of a status file: {path[:200]!r}")
    return path
