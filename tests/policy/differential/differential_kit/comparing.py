"""Our verdict beside the API server's answer, and tables of many of them."""

from __future__ import annotations

import collections
import enum
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from differential_kit.mutating import Mutation
from differential_kit.oracle import Answer
from gitops.policy.verdicts import Judgement, Verdict


class Outcome(enum.StrEnum):
    ACCEPTED = "both accept"
    REFUSED = "both refuse"
    UNVERIFIED = "unverified, accepted"
    UNVERIFIED_REFUSED = "unverified, refused"
    MISSED = "VALID, REFUSED"  # the worst: a pull request is green and the apply fails
    OVERCAUTIOUS = "INVALID, ACCEPTED"


class Place(enum.StrEnum):
    """How a refusal's fields compare with the paths of our problems."""

    SAME = "same field"
    NEAR = "field above or below"
    OTHER = "elsewhere"


@dataclass(frozen=True, slots=True)
class Case:
    """`kind` is apiVersion and kind in words."""

    kind: str
    mutation: Mutation
    answer: Answer
    judgement: Judgement

    @property
    def outcome(self) -> Outcome:
        verdict = self.judgement.verdict
        if self.answer.accepted:
            by_verdict = {Verdict.VALID: Outcome.ACCEPTED, Verdict.INVALID: Outcome.OVERCAUTIOUS}
            return by_verdict.get(verdict, Outcome.UNVERIFIED)
        by_verdict = {Verdict.VALID: Outcome.MISSED, Verdict.INVALID: Outcome.REFUSED}
        return by_verdict.get(verdict, Outcome.UNVERIFIED_REFUSED)

    @property
    def place(self) -> Place | None:
        """None where the server names no field."""
        theirs = [_of_text(field) for field in self.answer.fields if field != "<nil>"]
        if not theirs:
            return None
        ours = [_of_path(problem.path) for problem in self.judgement.problems]
        if any(field in ours for field in theirs):
            return Place.SAME
        near = any(_above(a, b) or _above(b, a) for a in theirs for b in ours)
        return Place.NEAR if near else Place.OTHER

    def __str__(self) -> str:
        said = "accepts" if self.answer.accepted else f"refuses ({self.answer.status}): {self.answer.message:.600}"
        ours = [f"{'.'.join(map(str, p.path))}: {p.message} [{p.rule:.120}]" for p in self.judgement.problems[:5]]
        return (
            f"{self.mutation}\n    server {said}\n    ours {self.judgement.verdict} {ours or self.judgement.unchecked}"
        )


def _of_text(field: str) -> str:
    """`spec.a[0].b`, `spec.a[name="x"].b` and `spec.map[key].b` without positions and list keys."""
    field = re.sub(r'\[(\d+|[\w-]+=("[^"]*"|\d+)(,[\w-]+=("[^"]*"|\d+))*|"[^"]*"|=[^]]*)\]', "", field)
    return re.sub(r"\[([^]]*)\]", r".\1", field)


def _of_path(path: Sequence[str | int]) -> str:
    return ".".join(step for step in path if isinstance(step, str))


def _above(a: str, b: str) -> bool:
    return b.startswith(f"{a}.") or not a


def table_of_outcomes(cases: Iterable[Case]) -> str:
    """Kind × outcome."""
    cases = list(cases)
    counts = collections.Counter((case.kind, case.outcome) for case in cases)
    total = collections.Counter(case.outcome for case in cases)
    kinds = sorted({case.kind for case in cases})
    lines = [" " * 56 + "".join(f"{outcome:>22}" for outcome in Outcome)]
    lines += [f"{kind:<56}" + "".join(f"{counts[kind, outcome]:>22}" for outcome in Outcome) for kind in kinds]
    lines.append(f"{'all':<56}" + "".join(f"{total[outcome]:>22}" for outcome in Outcome))
    return "\n".join(lines)


def table_of_places(cases: Iterable[Case]) -> str:
    """How often both name the same field, over what both refuse."""
    places = collections.Counter(case.place for case in cases if case.outcome is Outcome.REFUSED)
    told = sum(places[place] for place in Place) or 1
    words = ", ".join(f"{place} {places[place]} ({places[place] / told:.0%})" for place in Place)
    return f"where both refuse: {words}, no field named {places[None]}"


def reasons_of_unverified(cases: Iterable[Case]) -> str:
    """Why something was not checked, with numbers."""
    reasons = collections.Counter(reason for case in cases for reason in case.judgement.unchecked)
    return "\n".join(f"{count:>7}  {reason:.160}" for reason, count in reasons.most_common(20))
