"""ValidationPolicy: how strictly the objects of workloads are judged."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitops.model.documents import ApiVersion, Applied, Checked, Document, LabelMetadata
from gitops.model.serving import KubernetesType


class ValidationPolicySpec(Document):
    base: Checked[Literal["Default", "Unrestricted"]] = "Default"
    """Default judges objects (see there); Unrestricted asks of them only that their types are allowed."""
    extraKubernetesTypes: Applied[Annotated[list[KubernetesType], Field(min_length=1)] | None] = None
    """Types that workloads of this policy may contain besides; never more than the daemon's settings allow."""


class ValidationPolicy(Document):
    """policies/….yaml: a validation policy that GPU specifications choose by name."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["ValidationPolicy"]]
    metadata: Applied[LabelMetadata]
    spec: Applied[ValidationPolicySpec]
