"""Bundle: any manifests for selected clusters."""

from __future__ import annotations

from typing import Literal

from gitops.model.adoption import AdoptionRules
from gitops.model.documents import (
    AccountName,
    ApiVersion,
    Applied,
    Checked,
    DnsLabel,
    Document,
    Mode,
    NonBlank,
    WorkloadMetadata,
)
from gitops.model.patches import Patch
from gitops.model.serving import Manifests


class BundleSpec(AdoptionRules):
    manifests: Applied[Manifests]
    """Files or folders (every YAML or JSON file below one, sorted by path), relative to the bundle's folder."""
    clusters: Applied[list[DnsLabel]] = []
    regions: Applied[list[NonBlank]] = []
    attributes: Applied[list[NonBlank]] = []
    mode: Applied[Mode] = "enforce"
    serviceAccount: Applied[AccountName | None] = None
    """ServiceAccount of the cluster with whose rights the objects are written, read and deleted: `namespace/name`, or
    the name of one in gitops-system. Without it the reconciler's own rights count (docs/rights.md)."""
    patches: Applied[list[Patch]] = []
    clusterPatches: Applied[dict[str, list[Patch]]] = {}


class Bundle(Document):
    """bundles/<name>/bundle.yaml: any manifests for selected clusters; names its own namespaces."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["Bundle"]]
    metadata: Applied[WorkloadMetadata]
    spec: Applied[BundleSpec]
