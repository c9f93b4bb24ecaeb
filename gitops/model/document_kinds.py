"""Every kind of document that this version reads."""

from __future__ import annotations

from gitops.model.bundles import Bundle
from gitops.model.clusters import Cluster
from gitops.model.documents import Document
from gitops.model.functions import Function, FunctionDeployment
from gitops.model.operators import OperatorInstall, OperatorType
from gitops.model.policies import ValidationPolicy
from gitops.model.repositories import Repository
from gitops.model.status_mappings import StatusMapping
from gitops.model.tasks import Task

KINDS: dict[str, type[Document]] = {
    model.__name__: model
    for model in (
        Repository,
        Cluster,
        Function,
        FunctionDeployment,
        Task,
        Bundle,
        OperatorInstall,
        OperatorType,
        StatusMapping,
        ValidationPolicy,
    )
}
