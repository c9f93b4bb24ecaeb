"""Cluster: a target, what it offers, and what every instance namespace on it gets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, ValidatorFunctionWrapHandler, WrapValidator

from gitops.model.documents import (
    AccountId,
    ApiVersion,
    Applied,
    Checked,
    DnsLabel,
    DnsName,
    Document,
    LabelMetadata,
    Mode,
    NonBlank,
    Problem,
    Rule,
)
from gitops.model.uniqueness import repeated


def _quantity(value: Any, known: ValidatorFunctionWrapHandler) -> Any:
    """One error, not one for each type that it might have been."""
    try:
        return known(value)
    except ValidationError:
        raise ValueError("a quantity is text or a number, such as 4, 500m or 16Gi") from None


Quantity = Annotated[str | int | float, WrapValidator(_quantity)]
"""Its grammar is looked at where the objects are made of it (gitops/plan/clusters.py)."""


class InstanceType(Document):
    name: Applied[NonBlank]
    gpusPerInstance: Checked[Annotated[int, Field(ge=1)]] = 1


class Gpu(Document):
    name: Applied[NonBlank]
    instanceTypes: Applied[list[InstanceType]] = []
    capacity: Checked[Annotated[int, Field(ge=0)] | None] = None
    """GPUs of this name in the cluster: nothing new is placed beyond them. Without it there is no bound."""

    def problems(self) -> Iterable[Problem]:
        for position, name in repeated((kind.name for kind in self.instanceTypes), fold=True):
            yield Problem(Rule.NOT_UNIQUE, ("instanceTypes", position), f"instance type {name} is listed twice")


class Tenancy(Document):
    ncaId: Checked[AccountId]
    """The one account that the cluster is for, equal to the letter to that of gitops.yaml."""


class NamespaceQuota(Document):
    """spec of the ResourceQuota `gitops` in every instance namespace."""

    hard: Applied[Annotated[dict[NonBlank, Quantity], Field(min_length=1)]]


class NamespaceLimits(Document):
    """spec of the LimitRange `gitops` in every instance namespace."""

    limits: Applied[Annotated[list[dict[str, Any]], Field(min_length=1, max_length=16)]]


class NamespaceNetworkPolicy(Document):
    name: Applied[DnsName]
    spec: Applied[dict[str, Any]]


class NamespaceServiceAccount(Document):
    name: Applied[DnsName]
    annotations: Applied[dict[str, str]] = {}
    imagePullSecrets: Applied[list[DnsName]] = []
    automountServiceAccountToken: Applied[bool | None] = None


class NamespaceTemplate(Document):
    """What every instance namespace on the cluster gets beside the workload's own objects."""

    labels: Applied[dict[str, str]] = {}
    """Such as Pod Security levels: `pod-security.kubernetes.io/enforce: baseline`."""
    annotations: Applied[dict[str, str]] = {}
    resourceQuota: Applied[NamespaceQuota | None] = None
    limitRange: Applied[NamespaceLimits | None] = None
    networkPolicies: Applied[list[NamespaceNetworkPolicy]] = []
    serviceAccounts: Applied[list[NamespaceServiceAccount]] = []

    def problems(self) -> Iterable[Problem]:
        for position, name in repeated(policy.name for policy in self.networkPolicies):
            yield Problem(Rule.NOT_UNIQUE, ("networkPolicies", position), f"network policy {name} is listed twice")
        for position, name in repeated(account.name for account in self.serviceAccounts):
            yield Problem(Rule.NOT_UNIQUE, ("serviceAccounts", position), f"service account {name} is listed twice")


class ClusterSpec(Document):
    credentials: Applied[DnsLabel]
    """Name of a kubeconfig that the daemon has; never a secret."""
    region: Applied[NonBlank | None] = None
    attributes: Applied[list[NonBlank]] = []
    """What the cluster offers; operators stand for one each, such as DynamoOperatorSupport."""
    gpus: Applied[list[Gpu]] = []
    tenancy: Checked[Tenancy | None] = None
    """Only repositories of this account may declare anything there; left out, only those that name none."""
    mode: Applied[Mode] = "enforce"
    namespaceTemplate: Applied[NamespaceTemplate] = NamespaceTemplate()

    def problems(self) -> Iterable[Problem]:
        for position, name in repeated((gpu.name for gpu in self.gpus), fold=True):
            yield Problem(Rule.NOT_UNIQUE, ("gpus", position), f"GPU {name} is listed twice")


class Cluster(Document):
    """clusters/<name>.yaml: a target. `credentials` is a name that the daemon resolves, never a secret."""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["Cluster"]]
    metadata: Applied[LabelMetadata]
    spec: Applied[ClusterSpec]
