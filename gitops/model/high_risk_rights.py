"""HighRiskRights: the list of rights that pass the gate and that a person has to accept (policies/rbac/*.yaml)."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gitops.model.documents import ApiVersion, Checked, DnsLabel, Document, LabelMetadata, NonBlank

Texts = Annotated[list[str], Field(min_length=1)]


class HighRiskRight(Document):
    """A rule has the right when it allows one of `verbs` on one of `resources` (a subresource behind a slash)."""

    id: Checked[DnsLabel]
    """What an operator type accepts it by."""
    apiGroups: Checked[Texts]
    resources: Checked[Texts]
    verbs: Checked[Texts]
    scope: Checked[Literal["Namespaced", "Cluster"]] = "Namespaced"
    """Cluster: a RoleBinding does not give it."""
    onlyIn: Checked[list[DnsLabel]] = []
    """Namespaces in which it is a danger; everywhere else it is one only for all namespaces at once. None: in any."""
    evenNamed: Checked[bool] = True
    """Whether it is still a danger when resourceNames narrow it."""
    why: Checked[NonBlank]
    see: Checked[NonBlank] = ""
    """Section of Kubernetes' page "Role Based Access Control Good Practices"."""


class HighRiskRightsSpec(Document):
    rights: Checked[Annotated[list[HighRiskRight], Field(min_length=1)]]


class HighRiskRights(Document):
    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["HighRiskRights"]]
    metadata: Checked[LabelMetadata]
    spec: Checked[HighRiskRightsSpec]
