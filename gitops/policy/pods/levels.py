"""Pod Security levels of a namespace: from its labels to what they forbid.

`latest` is what the cluster's own version says. Where that is not known, a rule that only some of the supported
versions have is told apart from one that all of them have.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.policy.pods.standards import NEWEST, Level, Violation

PREFIX = "pod-security.kubernetes.io/"
OLDEST_SERVER = 30
"""The oldest Kubernetes 1.N that the operators support."""

_MODES = ("enforce", "audit", "warn")
_VERSION = re.compile(r"v1\.(0|[1-9][0-9]{0,2})\Z")


class Applies(enum.Enum):
    """Whether a violation counts under a standard."""

    NO = 0
    SOME_VERSIONS = 1  # depends on the cluster's version
    YES = 2


@dataclass(frozen=True, slots=True)
class Standard:
    """A level, and the versions of it that may be in force: one, or those of all supported clusters."""

    level: Level
    lowest: int = OLDEST_SERVER
    highest: int = NEWEST

    def applies(self, violation: Violation) -> Applies:
        if self.level not in violation.levels or violation.until <= self.lowest or violation.since > self.highest:
            return Applies.NO
        whole = violation.since <= self.lowest and self.highest < violation.until
        return Applies.YES if whole else Applies.SOME_VERSIONS


NOTHING = Standard(Level.PRIVILEGED)


@dataclass(frozen=True, slots=True)
class PodSecurity:
    enforce: Standard = NOTHING
    warn: Standard = NOTHING

    @classmethod
    def of(cls, labels: Mapping[str, Any], server: int | None = None) -> PodSecurity:
        """From a namespace's labels, on a server of Kubernetes 1.`server`. Without labels the cluster's own default
        holds, which is not known: nothing. What bad_labels() reports counts as nothing too: such a namespace cannot be
        made."""
        return cls(_standard(labels, "enforce", server), _standard(labels, "warn", server))


def _standard(labels: Mapping[str, Any], mode: str, server: int | None) -> Standard:
    level = labels.get(PREFIX + mode)
    if level not in (Level.BASELINE, Level.RESTRICTED):
        return NOTHING
    newest = NEWEST if server is None else min(server, NEWEST)
    match = _VERSION.match(str(labels.get(f"{PREFIX}{mode}-version", "latest")))
    if match is not None and int(match[1]) <= newest:
        return Standard(Level(level), int(match[1]), int(match[1]))
    # A server takes a version that it does not know for its newest.
    return Standard(Level(level), OLDEST_SERVER if server is None else newest, newest)


def bad_labels(labels: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Labels with a value for which the API server refuses the namespace, each with what it must be."""
    for mode in _MODES:
        if labels.get(PREFIX + mode, Level.BASELINE) not in tuple(Level):
            yield PREFIX + mode, f"must be one of {', '.join(Level)}"
        version = labels.get(f"{PREFIX}{mode}-version", "latest")
        if version != "latest" and not (isinstance(version, str) and _VERSION.match(version)):
            yield f"{PREFIX}{mode}-version", "must be latest or v1.N"
