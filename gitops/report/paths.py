"""Where things are written on the status branch.

Names come from people; naming.file_name makes elements of them that differ where the names do. A path built here stays
under its folder on every file system: no separators, no `.git`, no device names of Windows, at most 255 bytes an
element.
"""

from __future__ import annotations

import re

from gitops.model.identity import ClusterName, UnitKey, WorkloadRef
from gitops.plan.naming import file_name

ROOT = "status"
SCHEMAS = "schemas"
DRIFT = "drift"

_ELEMENT = re.compile(r"[a-z0-9][a-z0-9._+-]{0,254}|README\.md")


def unit_path(key: UnitKey) -> str:
    """`status/units/dgx-a/function.llama-chat.h100-0.yaml`"""
    parts = [str(key.kind), file_name(key.name)]
    if key.instance:
        parts.append(file_name(key.instance))
    return checked(f"{ROOT}/units/{file_name(key.cluster)}/{'.'.join(parts)}.yaml")


def drift_path(key: UnitKey) -> str:
    """`drift/dgx-a/function.llama-chat.h100-0.yaml`"""
    return unit_path(key).replace(f"{ROOT}/units/", f"{DRIFT}/", 1)


def drift_readme_path() -> str:
    return f"{DRIFT}/README.md"


def workload_path(workload: WorkloadRef) -> str:
    """`status/functions/llama-chat.yaml`"""
    return checked(f"{ROOT}/{workload.kind}s/{file_name(workload.name)}.yaml")


def cluster_path(name: ClusterName) -> str:
    """`status/clusters/dgx-a.yaml`"""
    return checked(f"{ROOT}/clusters/{file_name(name)}.yaml")


def facts_folder(name: ClusterName) -> str:
    """`schemas/dgx-a/`: what the cluster tells of itself (gitops/policy/published.py)."""
    return f"{SCHEMAS}/{file_name(name)}/"


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
