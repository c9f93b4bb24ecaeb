"""Repository: gitops.yaml, the one document about the repository itself."""

from __future__ import annotations

from typing import Literal

from gitops.model.adoption import AdoptionRules
from gitops.model.branches import BranchName
from gitops.model.documents import (
    AccountId,
    ApiVersion,
    Applied,
    Checked,
    Document,
    LabelMetadata,
    Recorded,
)


class Previews(Document):
    mode: Recorded[Literal["off", "offline", "live"]] = "live"
    """What the daemon says about pull requests: nothing, what the files tell, or also a dry run on the clusters."""
    drafts: Recorded[bool] = False
    """Also of pull requests that are drafts."""


class RepositorySpec(AdoptionRules):
    ncaId: Checked[AccountId | None] = None
    """Account the repository belongs to; a cluster of another account, or of none, is refused."""
    statusBranch: Applied[BranchName] = "gitops-status"
    """Branch that the daemon commits readiness and drift to."""
    allowEmpty: Applied[bool] = False
    """Consent to a tree without any workload or without any cluster; otherwise such a tree prunes nothing."""
    previews: Recorded[Previews] = Previews()


class Repository(Document):
    """gitops.yaml: `metadata.name` is the reconciler's name; never renamed on a claimed cluster."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["Repository"]]
    metadata: Applied[LabelMetadata]
    spec: Applied[RepositorySpec] = RepositorySpec()
