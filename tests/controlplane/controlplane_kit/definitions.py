"""CustomResourceDefinitions as small as they get."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def definition(
    kind: str,
    group: str,
    *,
    plural: str = "",
    version: str = "v1",
    scope: str = "Namespaced",
    spec: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A kind of one version. `spec` is the schema of the field of that name; without one any field is kept. `plural`
    is made by adding an s where it is not given."""
    plural = plural or f"{kind.lower()}s"
    schema: dict[str, Any] = {"type": "object"}
    schema |= {"x-kubernetes-preserve-unknown-fields": True} if spec is None else {"properties": {"spec": dict(spec)}}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [served],
        },
    }
