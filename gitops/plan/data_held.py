"""What is lost with an object that Git cannot bring back. Such an object is deleted only with consent on it, and what
people read of it never promises that it comes back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gitops.model.identity import GroupKind
from gitops.model.kinds import CLAIM, DEFINITION, SECRET, STATEFUL_SET
from gitops.policy.annotations import ALLOW_DELETE
from gitops.policy.registry import OperatorRegistry

TOKEN_TYPE = "kubernetes.io/service-account-token"


def data_held(kind: GroupKind, live: Mapping[str, Any], *, registry: OperatorRegistry, manager: str) -> str:
    """What would be lost with the live object, as the end of "with it would go …"; "" when nothing would."""
    if kind == CLAIM.group_kind:
        return "what is on its volume"
    if kind == DEFINITION.group_kind:
        return "every object of the kind it defines"
    if kind == STATEFUL_SET.group_kind and _takes_claims(live):
        return "its volume claims (whenDeleted: Delete)"
    if kind == SECRET.group_kind and _foreign_keys(live, manager):
        return "what something else wrote into it"
    return registry.data_held(kind)


def consents(metadata: Mapping[str, Any]) -> bool:
    return bool((metadata.get("annotations") or {}).get(ALLOW_DELETE) == "true")


def _takes_claims(live: Mapping[str, Any]) -> bool:
    """Claims of a StatefulSet stay when it is deleted, unless it says otherwise (KEP-1847)."""
    policy = (live.get("spec") or {}).get("persistentVolumeClaimRetentionPolicy") or {}
    return bool(policy.get("whenDeleted") == "Delete")


def _foreign_keys(live: Mapping[str, Any], manager: str) -> bool:
    """Whether a Secret has values that Git does not have: none of ours, and no token, which is made again."""
    if live.get("type") == TOKEN_TYPE:
        return False
    entries = (live.get("metadata") or {}).get("managedFields") or ()
    ours = {
        key.removeprefix("f:")
        for entry in entries
        if entry.get("manager") == manager and entry.get("operation") == "Apply"
        for key in (entry.get("fieldsV1") or {}).get("f:data") or {}
    }
    return bool((live.get("data") or {}).keys() - ours)
