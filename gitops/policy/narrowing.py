"""Operator types of a repository: they narrow the shipped one of their name, and never widen it.

What widens (kinds, companions, the attribute that stands for an operator) is the business of the shipped type:
whoever may merge a pull request must not thereby decide what it may contain. What neither widens nor narrows (how an
operator is found, watched and operated, CEL expressions) is no repository's business either: a field that could be left
out without any effect would be a promise that is not kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gitops.manifests.lines import Path
from gitops.model.operators import OperatorType, OperatorTypeSpec
from gitops.policy.registry import OperatorRegistry, gvk_of

_ADDED = (
    "reservedMetadataPrefixes",
    "nameLimits",
    "textFields",
    "componentSets",
    "fixedFields",
    "podTemplates",
    "serviceTypes",
    "requireExplicit",
)
"""Lists to which a repository adds: each entry refuses something more."""

SETTABLE_BY_REPOSITORIES = frozenset({"clusterAttribute", "kinds", "companions", *_ADDED})


def foreign_fields(wanted: OperatorType) -> Iterator[tuple[Path, str]]:
    """What a repository wrote into an operator type though it cannot set it, with a sentence."""
    for name in sorted(set(wanted.spec.model_fields_set) - SETTABLE_BY_REPOSITORIES):
        yield ("spec", name), f"{name} of an operator type is no repository's to set"


def widenings(registry: OperatorRegistry, wanted: OperatorType) -> Iterator[tuple[Path, str]]:
    """Where an operator type asks for more than the registry's type of that name has, with a sentence; else nothing."""
    name, spec = wanted.metadata.name, wanted.spec
    if name not in registry.types:
        yield ("metadata", "name"), f"there is no operator type {name} to narrow (known: {_names(registry)})"
        return
    have = registry.types[name].spec
    if spec.clusterAttribute != have.clusterAttribute:
        yield ("spec", "clusterAttribute"), f"clusterAttribute of {name} is {have.clusterAttribute}"
    for field in ("kinds", "companions"):
        known = {gvk_of(kind): kind for kind in getattr(have, field)}
        for position, kind in enumerate(getattr(spec, field)):
            if gvk_of(kind) not in known:
                yield ("spec", field, position), f"{gvk_of(kind)} is not among the {field} of {name}"
            elif (known[gvk_of(kind)].resource, known[gvk_of(kind)].scope) != (kind.resource, kind.scope):
                yield ("spec", field, position), f"{gvk_of(kind)} has another resource or scope in {name}"


def narrowed(registry: OperatorRegistry, wanted: OperatorType) -> OperatorRegistry:
    """The registry with one type narrowed: kinds and companions that `wanted` leaves out are refused, its limits are
    added to those that are there. Only for a type without widenings() and foreign_fields(). Companions stay as they are
    when nothing is written about them; an empty list refuses all of them.
    """
    name, spec = wanted.metadata.name, wanted.spec
    have = registry.types[name].spec
    kept = {gvk_of(kind) for kind in (*spec.kinds, *(spec if spec.wrote("companions") else have).companions)}
    refused = frozenset(gvk_of(kind) for kind in (*have.kinds, *have.companions)) - kept
    types = {**registry.types, name: registry.types[name].model_copy(update={"spec": _with_limits(have, spec)})}
    return replace(registry, types=types, refused={**registry.refused, name: refused})


def _with_limits(have: OperatorTypeSpec, more: OperatorTypeSpec) -> OperatorTypeSpec:
    return have.model_copy(update={field: [*getattr(have, field), *getattr(more, field)] for field in _ADDED})


def _names(registry: OperatorRegistry) -> str:
    return ", ".join(sorted(registry.types)) or "none"
