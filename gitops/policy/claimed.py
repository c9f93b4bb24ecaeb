"""Declared fields that somebody else will write: told before they are applied. Pure.

What is theirs is said by the ownership table (policies/ownership/): a path that is yielded to every manager is an
injector's, and what a scaler targets has its number from it.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.model.identity import GroupKind, ObjectRef
from gitops.policy import codes
from gitops.policy.field_rules import Problem, values_at
from gitops.policy.handovers import REPLICAS
from gitops.policy.ignoring import ignored
from gitops.policy.ownership import Ownership

_BEGIN = b"-----BEGIN CERTIFICATE"


def dummies(body: Mapping[str, Any], kind: GroupKind) -> Iterator[Problem]:
    """Certificates that are none, where an injector puts one."""
    for pattern in Ownership.shipped().injected(kind):
        for path, value in values_at(body, pattern):
            if not _is_certificate(value):
                what = "is empty" if value in ("", None) else "holds no certificate"
                yield codes.INJECTED_FIELD, f"{dotted(path)} {what}, and claims a field that an injector owns", path


def _is_certificate(value: Any) -> bool:
    try:
        return isinstance(value, str) and _BEGIN in base64.b64decode(value)
    except (binascii.Error, ValueError):
        return False


Scaled = tuple[ObjectRef, ObjectRef, Path]
"""What is scaled, by what, and where its number is."""


def scaled_beside(objects: Iterable[tuple[ObjectRef, Mapping[str, Any]]]) -> Iterator[Scaled]:
    """Objects that declare their number of replicas although one of these objects scales them."""
    bodies, table = dict(objects), Ownership.shipped()
    for ref, body in bodies.items():
        if ref.group_kind not in table.scalers:
            continue
        target = table.target({**body, "metadata": {**body["metadata"], "namespace": ref.namespace}})
        scaled = bodies.get(target) if target is not None else None
        spec = scaled.get("spec") if scaled is not None else None
        if target is None or scaled is None or not isinstance(spec, dict) or "replicas" not in spec:
            continue
        if REPLICAS not in ignored(scaled):
            yield target, ref, REPLICAS
