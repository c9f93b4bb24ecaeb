"""Rights that pass the gate and that a person has to accept. Which they are is data: policies/rbac/*.yaml."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from gitops.manifests.reading import read_documents
from gitops.model.high_risk_rights import HighRiskRight, HighRiskRights
from gitops.policy.rbac.resolving import Granted
from gitops.policy.registry import shipped_folder

PAGE = "https://kubernetes.io/docs/concepts/security/rbac-good-practices/"


@dataclass(frozen=True, slots=True)
class Review:
    """A high-risk right that a rule gives: `verbs` on `resources`, of `names` alone where there are any."""

    right: HighRiskRight
    granted: Granted
    verbs: tuple[str, ...]
    resources: tuple[str, ...]
    accepted: bool

    @property
    def link(self) -> str:
        """Where Kubernetes explains it; "" for what that page does not have."""
        return f"{PAGE}#{self.right.see}" if self.right.see else ""


def reviews_of(
    rules: Iterable[Granted], rights: Collection[HighRiskRight], accepted: Collection[str]
) -> Iterator[Review]:
    """High-risk rights of rules without wildcards, in the order of the list, then of the rules. `accepted` are ids."""
    known = tuple(rules)
    for right in rights:
        for granted in known:
            if (found := _given(right, granted)) is not None:
                yield Review(right, granted, *found, right.id in accepted)


def _given(right: HighRiskRight, granted: Granted) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Verbs and resources by which the rule gives the right; None when it does not."""
    rule, where = granted.rule, granted.namespaces
    if where is not None and (right.scope == "Cluster" or (right.onlyIn and where.isdisjoint(right.onlyIn))):
        return None
    if rule.names and not right.evenNamed:
        return None
    if not any("*" in rule.groups or group in rule.groups for group in right.apiGroups):
        return None
    verbs: dict[str, None] = {}
    resources = []
    for resource in right.resources:
        given = rule.verbs_for(right.verbs, resource) if rule.covers(resource) else ()
        if given:
            resources.append(resource)
            verbs |= dict.fromkeys(given)
    return (tuple(verbs), tuple(resources)) if resources else None


@lru_cache(maxsize=1)
def shipped_rights() -> tuple[HighRiskRight, ...]:
    """The list that ships with this version. Raises ValueError when a file of it is wrong or an id is there twice."""
    rights: list[HighRiskRight] = []
    for file in sorted((shipped_folder("policies") / "rbac").iterdir(), key=lambda f: f.name):
        result = read_documents(file.read_bytes(), file=file.name)
        if result.findings:
            raise ValueError("; ".join(map(str, result.findings)))
        rights += [r for d in result.documents for r in HighRiskRights.model_validate(d.body).spec.rights]
    if len({right.id for right in rights}) != len(rights):
        raise ValueError("a high-risk right is defined twice")
    return tuple(rights)
