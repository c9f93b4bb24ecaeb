"""What can be said of an object before an API server is asked: valid, invalid or unverified, each with its reasons."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from gitops.manifests.lines import Path

LONGEST_RULE = 200
"""Characters of a rule that is quoted: a CEL rule may be a page."""


class Verdict(enum.StrEnum):
    VALID = "valid"  # an API server with this schema takes it, admission webhooks aside
    INVALID = "invalid"  # it refuses it
    UNVERIFIED = "unverified"  # nothing is known to be wrong, and not everything could be checked


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong. `rule` names what says so: a schema word (`enum`, `required`, `unknown field`), or the
    text of a CEL rule. `message` shows no value but numbers, truth values and what the rule's author put into it."""

    path: Path
    message: str
    rule: str


@dataclass(frozen=True, slots=True)
class Judgement:
    """`unchecked` has a sentence for everything that could not be checked."""

    problems: tuple[Problem, ...] = ()
    unchecked: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        if self.problems:
            return Verdict.INVALID
        return Verdict.UNVERIFIED if self.unchecked else Verdict.VALID


SOUND = Judgement()
"""Nothing is wrong: what is said of almost every object."""


def quoted(rule: str) -> str:
    """A rule in one line, as long as it may be in a message."""
    text = " ".join(rule.split())
    return text if len(text) <= LONGEST_RULE else f"{text[:LONGEST_RULE]}…"
