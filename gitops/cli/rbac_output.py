"""What `gitops rbac check` prints, for people and for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from rich.console import Console
from rich.text import Text

from gitops.cli import terminal
from gitops.model.findings import Finding
from gitops.model.identity import ObjectRef
from gitops.policy.rbac.gate import Judgement, located, scope_of
from gitops.policy.rbac.reviewing import Review
from gitops.policy.rbac.roles import Account
from gitops.readiness.texts import printable, without_credentials
from gitops.report.findings import finding_json


@dataclass(frozen=True, slots=True)
class Part:
    """A judgement: of the files together, or of one operator type of a cluster. `unbound`: roles that no ServiceAccount
    has."""

    name: str
    judgement: Judgement
    accounts: Sequence[Account] = ()
    unbound: Sequence[ObjectRef] = ()


@dataclass(slots=True)
class Checked:
    """All of a run. `readable` is False when a file could not be read, so that the judgement is not complete."""

    cluster: str = ""
    operator: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    readable: bool = True


def as_json(checked: Checked) -> dict[str, Any]:
    """Keys are stable."""
    return {
        "ok": checked.readable and all(part.judgement.passes for part in checked.parts),
        "readable": checked.readable,
        "cluster": checked.cluster or None,
        "findings": [finding_json(f) for f in checked.findings],
        "judged": [_part_json(part, checked) for part in checked.parts],
    }


def _part_json(part: Part, checked: Checked) -> dict[str, Any]:
    judgement = part.judgement
    return {
        "name": part.name,
        "operator": part.name if checked.cluster else checked.operator or None,
        "serviceAccounts": [str(account) for account in part.accounts],
        "asIfBound": not judgement.bound,
        "violations": [finding_json(f) for f in located(judgement.violations, checked.cluster)],
        "review": [_review_json(review) for review in judgement.reviews],
        "notes": [without_credentials(note) for note in _notes(part, checked)],
    }


def _review_json(review: Review) -> dict[str, Any]:
    granted = review.granted
    return {
        "right": review.right.id,
        "accepted": review.accepted,
        "role": str(granted.role.ref),
        "aggregatedInto": str(granted.into) if granted.into is not None else None,
        "rule": granted.rule.number,
        "file": granted.rule.origin.file or None,
        "line": granted.rule.origin.line or None,
        "verbs": list(review.verbs),
        "resources": list(review.resources),
        "resourceNames": list(granted.rule.names),
        "namespaces": None if granted.namespaces is None else sorted(granted.namespaces),
        "why": review.right.why,
        "see": review.link or None,
    }


def print_text(checked: Checked) -> None:
    out = terminal.console()
    terminal.print_findings(checked.findings, checked.files.__getitem__, out)
    for part in checked.parts:
        _print_part(part, checked, out)
    if not checked.readable:
        out.print(Text("Not everything could be read, so nothing passes.", style="bold red"))


def _print_part(part: Part, checked: Checked, out: Console) -> None:
    judgement = part.judgement
    title = f"{checked.cluster}: operator type {part.name}" if checked.cluster else "Roles in the files"
    names = ", ".join(map(str, part.accounts)) or "no ServiceAccount"
    whose = names if judgement.bound else "no bindings: each is judged as if it were bound"
    _line(out, f"{title} ({whose})", style="bold")
    terminal.print_findings(located(judgement.violations, checked.cluster), _source(checked), out)
    by_right = groupby(judgement.reviews, key=lambda review: review.right.id)
    for _, reviews in by_right:
        _print_right(list(reviews), checked, out)
    for note in _notes(part, checked):
        _line(out, f"  note: {note}", style="dim")
    _line(out, _summary(judgement))


def _source(checked: Checked) -> Any:
    return lambda name: checked.files.get(name, b"")


def _print_right(reviews: list[Review], checked: Checked, out: Console) -> None:
    right, accepted = reviews[0].right, reviews[0].accepted
    word = "accepted" if accepted else "to accept"
    _line(out, f"  {right.id} ({word}): {right.why}", style="dim" if accepted else "yellow")
    if reviews[0].link:
        _line(out, f"    {reviews[0].link}", style="dim")
    for review in reviews:
        granted, rule = review.granted, review.granted.rule
        place = rule.origin if rule.origin.file else checked.cluster
        named = f" named {', '.join(rule.names)}" if rule.names else ""
        into = f", aggregated into {granted.into}" if granted.into is not None else ""
        what = f"{', '.join(review.verbs)} {', '.join(review.resources)}{named} {scope_of(granted)}"
        _line(out, f"    {place}: {granted.role.ref} rule {rule.number}{into}: {what}")


def _notes(part: Part, checked: Checked) -> list[str]:
    found = []
    if checked.cluster and not part.accounts:
        found.append("the operator has no ServiceAccount on the cluster, so there is nothing to judge")
    found += [f"{ref} is bound to no ServiceAccount in these files and was not judged" for ref in part.unbound]
    return [*found, *part.judgement.notes]


def _summary(judgement: Judgement) -> str:
    rights = {review.right.id: review.accepted for review in judgement.reviews}
    refused = terminal.count(len(judgement.violations), "violation")
    risky = terminal.count(len(rights), "high-risk right")
    return f"{refused}, {risky}, {list(rights.values()).count(False)} of them to accept"


def _line(out: Console, text: str, style: str = "") -> None:
    out.print(Text(printable(without_credentials(text)), style=style), soft_wrap=True)
