"""Why instances are where they are: one line for each specification and cluster, as text and as JSON.

All reasons against a cluster are told, not only the first; what was merely not needed is told apart from what cannot
be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gitops.model.identity import ClusterName, WorkloadKind
from gitops.policy.allocation import Ask, Decision
from gitops.policy.placement import Candidate


@dataclass(frozen=True, slots=True)
class ClusterLine:
    """What one cluster is to one specification. Numbers are those of instances: `live` stay there, `new` go there,
    `leaving` live there and are not wanted there any more."""

    cluster: ClusterName
    live: tuple[int, ...]
    new: tuple[int, ...]
    leaving: tuple[int, ...]
    fits: bool
    reasons: tuple[str, ...]

    def words(self, *, numbered: bool) -> str:
        """For people: `#0, #1 live here; #2 new`, `no: lacks attribute X; has no GPU H100`; `nothing new` where an
        instance that lives there could stay."""
        lives, comes, goes = ("live here", "new", "leaving") if numbered else ("lives here", "new", "leaving")
        parts = [
            f"{', '.join(f'#{index}' for index in found)} {word}" if numbered else word
            for found, word in ((self.live, lives), (self.new, comes), (self.leaving, goes))
            if found
        ]
        if self.reasons:
            verdict = "but" if self.live or self.new else "nothing new" if self.fits else "no"
            parts.append(f"{verdict}: {'; '.join(self.reasons)}")
        return "; ".join(parts) or "fits"


def cluster_lines(decision: Decision) -> list[ClusterLine]:
    """A line for every declared cluster, and for those whose documents cannot be used while something lives there."""
    ask, placed = decision.ask, decision.placed
    candidates = {c.cluster: c for c in ask.candidates}
    hidden = {p.cluster for p in placed.kept if p.cluster not in candidates}
    lines = []
    for cluster in sorted({*candidates, *hidden}):
        live = tuple(p.index for p in placed.kept if p.cluster == cluster)
        new = tuple(p.index for p in placed.new if p.cluster == cluster)
        pinned = sorted(p.index for p in ask.pins if p.cluster == cluster)
        leaving = tuple(index for index in pinned if index not in live and index not in new)
        candidate = candidates.get(cluster)
        if candidate is None:
            reasons: Sequence[str] = [f"clusters/{cluster}.yaml cannot be used now"]
        else:
            reasons = _reasons(decision, candidate, taken=bool(live or new))
        lines.append(ClusterLine(cluster, live, new, leaving, candidate is None or candidate.fits, tuple(reasons)))
    return lines


def _reasons(decision: Decision, candidate: Candidate, *, taken: bool) -> list[str]:
    ask, placed = decision.ask, decision.placed
    if candidate.reasons:
        return list(candidate.reasons)
    if short := [s.room for s in placed.shortages if s.cluster == candidate.cluster]:
        return [f"no room for GPUs {ask.gpu}: {short[0]}"]
    if taken:
        return ["paused, nothing is written there"] if candidate.paused else []
    if ask.waits_for:
        return [f"waits for {', '.join(ask.waits_for)}"]
    if ask.count == 0:
        return ["no instance is asked for"]
    return ["paused, so chosen last" if candidate.paused else "others come first by load and hash"]


def worth_telling(decision: Decision) -> bool:
    """Whether a terminal shows it: not a bundle or the like that is simply on every cluster."""
    everywhere = decision.ask.per_cluster and not decision.placed.short
    return not everywhere or any(line.reasons or line.leaving for line in cluster_lines(decision))


def title(ask: Ask) -> str:
    """`function/chat h100`, `bundle/base`."""
    return f"{ask.workload} {ask.spec_id}".rstrip()


def amount(decision: Decision) -> str:
    """`2 of 3 instances`, `2 instances on each of 4 clusters`."""
    ask = decision.ask
    if ask.per_cluster:
        here = len({p.cluster for p in decision.placed.every})
        each = "" if ask.count == 1 else f"{ask.count} instances "
        return f"{each}on {here} {'cluster' if here == 1 else 'clusters'}"
    return f"{len(decision.placed.every)} of {ask.count} {'instance' if ask.count == 1 else 'instances'}"


def placement_json(decisions: Iterable[Decision], clusters: Iterable[str]) -> list[dict[str, Any]]:
    """For programs: every specification with every one of these clusters."""
    wanted = frozenset(clusters)
    return [
        {
            "workload": str(decision.ask.workload),
            "specification": decision.ask.spec_id or None,
            "instances": decision.ask.count,
            "perCluster": decision.ask.per_cluster,
            "waiting": decision.placed.short,
            "waitsFor": list(decision.ask.waits_for),
            "clusters": {
                line.cluster: {
                    "live": list(line.live),
                    "new": list(line.new),
                    "leaving": list(line.leaving),
                    "fits": line.fits,
                    "reasons": list(line.reasons),
                }
                for line in cluster_lines(decision)
                if line.cluster in wanted
            },
        }
        for decision in decisions
    ]


def is_numbered(ask: Ask) -> bool:
    """Functions have numbered instances; a task or bundle is on a cluster or not."""
    return ask.workload.kind is WorkloadKind.FUNCTION
