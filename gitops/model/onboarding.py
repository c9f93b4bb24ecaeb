"""How to tell which version of an operator runs."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gitops.model.documents import Applied, DnsLabel, DnsName, Document, NonBlank


class OperatorDeployment(Document):
    """The Deployment of the operator itself. `selector` is a label selector of Deployments, `container` runs it."""

    selector: Applied[NonBlank]
    container: Applied[DnsLabel]


class DefinitionVersion(Document):
    """An annotation of a CustomResourceDefinition that holds the version of the operator."""

    definition: Applied[DnsName]
    annotation: Applied[NonBlank]


class Detection(Document):
    """How to tell which version runs: the image tag of the container in the first Deployment that matches, its label
    app.kubernetes.io/version, the annotation of the definition; else unknown."""

    deployments: Applied[Annotated[list[OperatorDeployment], Field(min_length=1)]]
    definition: Applied[DefinitionVersion | None] = None
