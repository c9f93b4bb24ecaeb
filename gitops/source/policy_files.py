"""Operator types and ownership tables from files that the settings name: who runs the daemon adds them, a repository
only narrows."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from gitops.manifests.reading import read_documents
from gitops.model.documents import Document
from gitops.model.findings import Severity
from gitops.model.operators import OperatorType
from gitops.model.ownership import OwnershipTable
from gitops.plan.documents import typed
from gitops.policy.ownership import Ownership
from gitops.policy.registry import OperatorRegistry
from gitops.source.schema_files import read_schema_files

D = TypeVar("D", bound=Document)


def with_operator_types(registry: OperatorRegistry, places: Iterable[Path]) -> OperatorRegistry:
    """The registry and the types in files and in folders. Raises OSError for a place that cannot be read, ValueError
    with a line for everything that is wrong: a field, a rule that is no CEL, a checklist that is not complete, a name
    or kind that is there already."""
    return registry.extended(_read(places, OperatorType))


def with_ownership_tables(ownership: Ownership, places: Iterable[Path]) -> Ownership:
    """The tables in files and in folders, before the others. Raises OSError for a place that cannot be read, ValueError
    with a line for every field that is wrong."""
    return ownership.extended(_read(places, OwnershipTable))


def _read(places: Iterable[Path], model: type[D]) -> list[D]:
    wrong: list[str] = []
    found: list[D] = []
    for name, data in read_schema_files(places).items():
        result = read_documents(data, file=name)
        wrong += map(str, result.findings)
        for document in result.documents:
            parsed, findings = typed(document, model)
            wrong += (str(f) for f in findings if f.severity == Severity.ERROR)
            found += [parsed] if parsed is not None else []
    if wrong:
        raise ValueError("\n".join(wrong))
    return found
