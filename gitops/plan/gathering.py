"""What one compile gathers: units, findings, and who is held. At its end the compilation is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin, Severity, has_errors
from gitops.model.identity import ObjectRef, UnitKey, WorkloadKind, WorkloadRef
from gitops.model.repositories import Repository
from gitops.model.trees import FileTree
from gitops.plan import codes
from gitops.plan.layout import REPOSITORY_FILE, Layout
from gitops.plan.scoping import Scoping
from gitops.plan.tasks import TASK_FILE
from gitops.plan.units import Compilation, Unit
from gitops.plan.verdict_findings import NO_VERDICTS, Verdicts
from gitops.plan.workloads import Context, WorkloadResult
from gitops.policy.allocation import Decision
from gitops.policy.facts import Facts
from gitops.policy.operator_rules import without_consequences

_NOT_RUN = frozenset({WorkloadKind.TASK})
"""Kinds that are compiled and not applied by this version."""

_APPLIED = frozenset({WorkloadKind.FUNCTION, WorkloadKind.BUNDLE})
"""Kinds that put objects on clusters."""


class Run:
    """What one compile has gathered so far."""

    def __init__(self, layout: Layout) -> None:
        self.findings: list[Finding] = list(layout.findings)
        self.units: dict[WorkloadRef, tuple[Unit, ...]] = {}
        self.suspects: list[Unit] = []
        self.held: set[WorkloadRef] = set()
        self.left_alone: set[WorkloadRef] = set()
        self.named: dict[WorkloadRef, frozenset[ObjectRef]] = {}
        self.complete = layout.whole
        self.every_cluster = frozenset({*layout.clusters, *layout.broken_clusters})
        self.policies_usable = True
        self.verdicts = NO_VERDICTS
        self.decisions: dict[WorkloadRef, tuple[Decision, ...]] = {}
        self.kept: set[UnitKey] = set()

    def add(self, ref: WorkloadRef, result: WorkloadResult) -> None:
        self.findings += result.findings
        if not self.policies_usable or has_errors(result.findings):
            self.held.add(ref)
            self.suspects += (*result.units, *result.suspects)
        else:
            self.units[ref] = result.units
            self.kept.update(result.kept)
            if ref.kind in _NOT_RUN:
                self.leave_alone(ref, result)
        if result.named is not None:
            self.named[ref] = result.named

    def scoped(self, scoping: Scoping, facts: Facts) -> None:
        """No object of a cluster-scoped kind keeps a namespace."""
        every = [*(u for units in self.units.values() for u in units), *self.suspects]
        changed, found = scoping.settle(every, facts)
        if changed:
            self.units = {ref: tuple(changed.get(u.key, u) for u in units) for ref, units in self.units.items()}
            self.suspects = [changed.get(u.key, u) for u in self.suspects]
            self.findings += found
            self.collided(f.workload for f in found if f.severity == Severity.ERROR and f.workload is not None)

    def collided(self, refs: Iterable[WorkloadRef]) -> None:
        for ref in refs:
            self.held.add(ref)
            self.left_alone.discard(ref)
            theirs = frozenset(o.ref for unit in self.units[ref] for o in unit.objects)
            self.named[ref] = theirs | self.named.get(ref, frozenset())

    def sound(self) -> Iterator[Unit]:
        """Units that will be there, if their clusters take them."""
        for ref, units in self.units.items():
            if ref not in self.held or ref in self.left_alone:
                yield from units

    def doubtful(self) -> Iterator[Unit]:
        """Those of workloads with errors: all that is wrong with them is told at once."""
        for ref, units in self.units.items():
            if ref in self.held and ref not in self.left_alone:
                yield from units
        yield from self.suspects

    def validated(self, verdicts: Verdicts) -> None:
        """A unit that its cluster refuses is held alone; what it names may have moved there (R05)."""
        self.verdicts = verdicts
        told = {(f.workload, f.origin, f.path) for f in self.findings if f.severity == Severity.ERROR}
        self.findings += (f for f in verdicts.findings if (f.workload, f.origin, f.path) not in told)
        for ref, units in self.units.items():
            refused = [unit for unit in units if unit.key in verdicts.refused]
            if refused and ref not in self.held:
                theirs = frozenset(o.ref for unit in refused for o in unit.objects)
                self.named[ref] = theirs | self.named.get(ref, frozenset())

    def leave_alone(self, ref: WorkloadRef, result: WorkloadResult) -> None:
        """A kind that this version does not run: nothing of it is applied, and nothing of it is ever pruned."""
        count = len(result.units)
        message = f"{ref} is checked ({count} {'unit' if count == 1 else 'units'}), and not run by this version"
        origin = Origin(f"{ref.kind}s/{ref.name}/{TASK_FILE}")
        self.findings.append(finding(codes.NOT_RUN, message, origin, workload=ref))
        self.held.add(ref)
        self.left_alone.add(ref)

    def check_not_empty(self, layout: Layout, repository: Repository, context: Context) -> None:
        """A tree that suddenly declares nothing is a mistake until somebody says that it is meant (R01, R02). Tasks and
        OperatorInstalls apply nothing: a tree of them alone would have all else pruned."""
        if repository.spec.allowEmpty:
            return
        applied = [ref for ref in layout.workloads if ref.kind in _APPLIED]
        clusters = {*context.clusters, *context.unreadable}
        for what, there in (("function and no bundle", applied), ("cluster", clusters)):
            if not there:
                message = f"the tree declares no {what}"
                self.findings.append(finding(codes.NOTHING_DECLARED, message, Origin(REPOSITORY_FILE)))
                self.complete = False

    def incomplete(self, tree: FileTree) -> Compilation:
        """Without a usable repository document nothing can be marked as ours: no units, and nothing is pruned."""
        return Compilation(
            tree.commit,
            None,
            {},
            {},
            _sorted(self.findings),
            frozenset(),
            False,
            unreadable_clusters=self.every_cluster,
        )

    def compilation(self, tree: FileTree, repository: Repository, context: Context) -> Compilation:
        units: dict[UnitKey, Unit] = {}
        not_run: dict[UnitKey, Unit] = {}
        refused: dict[UnitKey, Unit] = {}
        for ref in sorted(self.units):
            if ref not in self.held or ref in self.left_alone:
                for unit in self.units[ref]:
                    current = unit if unit.commit == tree.commit else replace(unit, commit=tree.commit)
                    if unit.key in self.verdicts.refused:
                        refused[unit.key] = current
                    else:
                        (not_run if ref in self.left_alone else units)[unit.key] = current
        return Compilation(
            commit=tree.commit,
            repository=repository,
            clusters=context.documents,
            units=units,
            findings=_sorted(without_consequences(self.findings)),
            held=frozenset(self.held),
            left_alone=frozenset(self.left_alone),
            not_run=not_run,
            refused=refused,
            verdicts=self.verdicts.units,
            schemas=self.verdicts.schemas,
            complete=self.complete and not context.unreadable,
            unreadable_clusters=context.unreadable,
            named=self.named,
            kept=frozenset(self.kept),
            decisions=tuple(d for ref in sorted(self.decisions) for d in self.decisions[ref]),
        )


def _sorted(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Each finding once, by place: the same tree gives the same list."""
    unique: Mapping[tuple[Origin, str, str, str], Finding] = {
        (f.origin, f.code, f.message, str(f.workload or "")): f for f in findings
    }
    return tuple(unique[key] for key in sorted(unique))
