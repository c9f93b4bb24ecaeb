"""What is taken out of an object before it is applied, because sending it would do harm or nothing.

- Fields only the cluster writes (people export manifests from clusters): a resourceVersion or uid conflicts for ever,
  managedFields are refused with 400, status is dropped.
- The last-applied annotation of `kubectl apply`, and the revision that the Deployment controller writes.
- `creationTimestamp: null` of code generators, and null labels or annotations, at any depth: both mean "absent".
- Empty lists and maps in a NetworkPolicy: the server drops them after computing who owns what, so that every apply
  would be a write. Only where absent means the same; see _EMPTY_MEANS_ABSENT.

Nulls elsewhere are not touched: the caller refuses them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gitops.manifests import codes
from gitops.manifests.canonical import canonical_json, copy_json
from gitops.manifests.lines import Path

SERVER_METADATA = (
    "managedFields",
    "resourceVersion",
    "uid",
    "generation",
    "selfLink",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
"""Fields of metadata that only the API server writes."""

_SERVER_ANNOTATIONS = ("kubectl.kubernetes.io/last-applied-configuration", "deployment.kubernetes.io/revision")

_EMPTY_MEANS_ABSENT = frozenset(
    {"ingress", "egress", "policyTypes", "from", "to", "ports", "except", "matchLabels", "matchExpressions"}
)
"""Keys of a NetworkPolicy whose empty list or map means the same as no key.

API reference of networking.k8s.io/v1: ingress and egress "if this field is empty then this NetworkPolicy does not allow
any traffic", which is also what an absent one does; the default of policyTypes depends on len(egress), not on its
presence (SetDefaults_NetworkPolicy); an empty or missing `from`, `to` or `ports` matches all. Not here, because their
presence has a meaning: podSelector and namespaceSelector (`{}` selects all), and `{}` as a rule in a list (allows all).
"""


_NOTES = 100  # of one object


@dataclass(frozen=True, slots=True)
class Note:
    """Something that was taken out: `code` is a finding of level info, `message` one sentence."""

    code: str
    path: Path
    message: str


def prepare_body(body: dict[str, Any]) -> tuple[dict[str, Any], tuple[Note, ...]]:
    """A copy of the object without what must not be sent, and what was taken out, the first of it. Idempotent."""
    result: dict[str, Any] = copy_json(body)
    notes: list[Note] = []
    if "status" in result:
        del result["status"]
        notes.append(_server_owned(("status",)))
    metadata = result.get("metadata")
    if isinstance(metadata, dict):
        _strip_server_metadata(metadata, notes)
    if _may_hold_null(result):
        _strip_null_metadata(result, (), notes)
    if result.get("kind") == "NetworkPolicy" and str(result.get("apiVersion")).startswith("networking.k8s.io/"):
        spec = result.get("spec")
        if isinstance(spec, dict):
            _strip_empties(spec, ("spec",), notes)
    return result, tuple(notes[:_NOTES])


def _may_hold_null(value: Any) -> bool:
    """False when there is surely no null; encoding to JSON is 10 times faster than walking."""
    return b"null" in canonical_json(value)


def _strip_server_metadata(metadata: dict[str, Any], notes: list[Note]) -> None:
    for key in SERVER_METADATA:
        if key in metadata:
            del metadata[key]
            notes.append(_server_owned(("metadata", key)))
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return
    for key in _SERVER_ANNOTATIONS:
        if key in annotations:
            del annotations[key]
            notes.append(_server_owned(("metadata", "annotations", key)))
    if not annotations:
        del metadata["annotations"]


def _strip_null_metadata(value: Any, path: Path, notes: list[Note]) -> None:
    if isinstance(value, list):
        for position, item in enumerate(value):
            if isinstance(item, (dict, list)):
                _strip_null_metadata(item, (*path, position), notes)
        return
    for key, child in value.items():
        if not isinstance(child, (dict, list)):
            continue
        below = (*path, key)
        if key == "metadata" and isinstance(child, dict):
            for name in ("creationTimestamp", "labels", "annotations"):
                if name in child and child[name] is None:
                    del child[name]
                    notes.append(Note(codes.EMPTY_VALUE, (*below, name), f"`{name}: null` means no {name}"))
        _strip_null_metadata(child, below, notes)


def _strip_empties(value: Any, path: Path, notes: list[Note]) -> None:
    if isinstance(value, list):
        for position, item in enumerate(value):
            _strip_empties(item, (*path, position), notes)
    elif isinstance(value, dict):
        for key in list(value):
            child, below = value[key], (*path, key)
            _strip_empties(child, below, notes)
            if key in _EMPTY_MEANS_ABSENT and child in ([], {}):
                del value[key]
                message = f"an empty `{key}` of a NetworkPolicy means the same as none"
                notes.append(Note(codes.EMPTY_VALUE, below, message))


def _server_owned(path: Path) -> Note:
    return Note(codes.SERVER_OWNED, path, f"`{'.'.join(str(p) for p in path)}` is written by the cluster")
