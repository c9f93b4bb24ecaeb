"""Which objects that exist already may be taken over: said for the repository, and for each workload."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from gitops.model.documents import Applied, Document, Problem, Rule


class Tool(enum.StrEnum):
    """Tools that mark what they declare."""

    HELM = "helm"
    FLUX = "flux"
    ARGOCD = "argocd"
    APPLYSET = "applyset"


@dataclass(frozen=True, slots=True)
class Adoption:
    """Whether objects that exist may be taken over, and those of which tools."""

    allowed: bool = True
    tools: frozenset[Tool] = frozenset()

    def with_(self, other: Adoption) -> Adoption:
        """What the repository and a workload say together: one `never` is enough, and so is one mention of a tool."""
        return Adoption(self.allowed and other.allowed, self.tools | other.tools)


WITHOUT_A_WORD = Adoption()
"""Where nothing is said of it."""


class AdoptionRules(Document):
    """The part of a document that says it."""

    adopt: Applied[Literal["always", "never"]] = "always"
    """What to do with an object that exists and was made by other means: take it over, or refuse it. `never` on the
    repository or on the workload is enough."""
    adoptFrom: Applied[list[Literal["helm", "flux", "argocd", "applyset"]]] = []
    """Tools whose objects are taken over too; without a mention here or on the repository they are refused."""

    def problems(self) -> Iterable[Problem]:
        yield from super().problems()
        if self.adopt == "never" and self.adoptFrom:
            yield Problem(Rule.CONTRADICTION, ("adoptFrom",), "nothing is adopted from a tool where `adopt` is `never`")

    @property
    def adoption(self) -> Adoption:
        if self.adopt == "always" and not self.adoptFrom:
            return WITHOUT_A_WORD
        return Adoption(self.adopt == "always", frozenset(map(Tool, self.adoptFrom)))
