"""Operator types from files that the settings name: who runs the daemon adds an operator, a repository only narrows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gitops.manifests.reading import read_documents
from gitops.model.findings import Severity
from gitops.model.operators import OperatorType
from gitops.plan.documents import typed
from gitops.policy.registry import OperatorRegistry
from gitops.source.schema_files import read_schema_files


def with_operator_types(registry: OperatorRegistry, places: Iterable[Path]) -> OperatorRegistry:
    """The registry and the types in files and in folders. Raises OSError for a place that cannot be read, ValueError
    with a line for everything that is wrong: a field, a rule that is no CEL, a checklist that is not complete, a name
    or kind that is there already."""
    wrong: list[str] = []
    types: list[OperatorType] = []
    for name, data in read_schema_files(places).items():
        result = read_documents(data, file=name)
        wrong += map(str, result.findings)
        for document in result.documents:
            parsed, findings = typed(document, OperatorType)
            wrong += (str(f) for f in findings if f.severity == Severity.ERROR)
            types += [parsed] if parsed is not None else []
    if wrong:
        raise ValueError("\n".join(wrong))
    return registry.extended(types)
