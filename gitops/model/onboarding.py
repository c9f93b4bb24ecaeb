"""The checklist of an operator: what must be known of it before anything is handed to it.

An OperatorType without all of it is refused (gitops/policy/registry.py); a repository that narrows one does not repeat
it. Everything is a fact that a test, a command or a person at three in the morning can use, not an essay.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gitops.model.documents import Applied, Checked, DnsLabel, DnsName, Document, NonBlank

Text = Annotated[str, StringConstraints(pattern=r"\S", max_length=600)]
Steps = Annotated[list[Text], Field(min_length=1)]


class OperatorDeployment(Document):
    """The Deployment of the operator itself. `selector` is a label selector of Deployments, `container` runs it."""

    selector: Applied[NonBlank]
    container: Applied[DnsLabel]


class DefinitionVersion(Document):
    """An annotation of a CustomResourceDefinition that holds the version of the operator."""

    definition: Applied[DnsName]
    annotation: Applied[NonBlank]


class Detection(Document):
    """How to tell which version runs, and whether it runs: the image tag of the container in the first Deployment
    that matches, its label app.kubernetes.io/version, the annotation of the definition; else unknown."""

    deployments: Applied[Annotated[list[OperatorDeployment], Field(min_length=1)]]
    definition: Applied[DefinitionVersion | None] = None


class Chart(Document):
    name: Checked[NonBlank]
    repository: Checked[NonBlank]
    version: Checked[NonBlank]
    """The version that this type was written from."""


class Prerequisite(Document):
    name: Checked[NonBlank]
    optional: Checked[bool] = False
    why: Checked[Text]


class Install(Document):
    """How the operator gets onto a cluster. Nothing is installed by it."""

    chart: Checked[Chart]
    definitions: Checked[Literal["chart", "hook", "operator", "manifests"]]
    """What writes its CustomResourceDefinitions: files of the chart, a hook of it, the operator at start, or people."""
    prerequisites: Checked[list[Prerequisite]]
    order: Checked[Steps]


class Manage(Document):
    """How it is changed and removed, and what that does to what runs."""

    upgrade: Checked[Steps]
    rollback: Checked[Steps]
    uninstall: Checked[Steps]
    data: Checked[Text]
    """What becomes of volumes, models and objects."""


class WatchedCondition(Document):
    """A condition to look at first; `bad` is the status that means trouble."""

    kind: Checked[NonBlank]
    type: Checked[NonBlank]
    bad: Checked[Literal["True", "False"]]
    meaning: Checked[Text]


class Metrics(Document):
    port: Checked[Annotated[int, Field(ge=1, le=65535)]]
    path: Checked[NonBlank] = "/metrics"
    names: Checked[Annotated[list[NonBlank], Field(min_length=1)]]


class Observe(Document):
    """Where its state can be seen."""

    statusMappings: Checked[Annotated[list[DnsLabel], Field(min_length=1)]]
    """StatusMapping documents that say what its kinds' status means."""
    conditions: Checked[list[WatchedCondition]]
    metrics: Checked[Metrics | None]


class OperatorAccount(Document):
    """The ServiceAccount that the operator runs as; `selector` is a label selector, where its name is chosen by whoever
    installs it."""

    name: Checked[NonBlank] = ""
    selector: Checked[str] = ""


class AcceptedRight(Document):
    """A high-risk right (id of policies/rbac) that was looked at and accepted, with the reason why the operator has
    it."""

    right: Checked[DnsLabel]
    reason: Checked[Text]


class Rights(Document):
    serviceAccounts: Checked[Annotated[list[OperatorAccount], Field(min_length=1)]]
    accepted: Checked[list[AcceptedRight]] = []


class ClaimLease(Document):
    """A Lease in a namespace that says: another copy of the operator, for this namespace only, owns it. The version of
    that copy follows `holderPrefix` in the Lease's holderIdentity."""

    name: Applied[DnsName]
    holderPrefix: Applied[NonBlank]


class OperatorTenancy(Document):
    """Whom one copy of the operator serves."""

    scope: Checked[Literal["cluster", "namespace"]]
    claimLease: Applied[ClaimLease | None]
    isolation: Checked[Text]
    """What keeps workloads of two namespaces apart, and what does not."""


class Playbook(Document):
    """What to do about one symptom."""

    name: Checked[DnsLabel]
    symptom: Checked[Text]
    steps: Checked[Steps]


SECTIONS = ("detection", "supportedVersions", "install", "manage", "observe", "rbac", "tenancy", "playbooks")
"""Fields of an OperatorType's spec that make up the checklist."""
