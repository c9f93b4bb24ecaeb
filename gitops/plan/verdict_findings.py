"""Verdicts on the objects of all units as findings: each thing that is wrong or was not checked is said once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import ClusterName, GroupVersionKind, ObjectRef, UnitKey, WorkloadRef
from gitops.plan.field_paths import spelled
from gitops.plan.known_schemas import Gap, Known
from gitops.plan.units import DesiredObject, Unit
from gitops.policy import codes
from gitops.policy.schemas.schema_set import ClusterSchemas
from gitops.policy.verdicts import Judgement, Problem, Verdict, quoted

MOST_PROBLEMS = 20
"""Findings about one object: a manifest of another version of an operator is wrong everywhere."""


@dataclass(frozen=True, slots=True)
class Verdicts:
    """`units` has the verdict of every object, in the order of the unit's objects; `schemas` tells what they were
    judged with."""

    findings: tuple[Finding, ...] = ()
    refused: frozenset[UnitKey] = frozenset()
    units: Mapping[UnitKey, tuple[Verdict, ...]] = field(default_factory=dict)
    schemas: ClusterSchemas = field(default_factory=dict, compare=False, repr=False)


NO_VERDICTS = Verdicts()


Remark = Judgement | Gap


@dataclass(frozen=True, slots=True)
class Judged:
    """What was found about a unit. `remarks` are those of objects that are not plainly valid, by position."""

    objects: tuple[DesiredObject, ...]
    knowledge: bytes
    verdicts: tuple[Verdict, ...]
    remarks: tuple[tuple[int, Remark], ...]


_Declared = tuple[WorkloadRef, GroupVersionKind, str, str]
"""An object as people declare it: workload, kind, namespace ("" for an instance's own) and name."""


@dataclass(slots=True)
class _Gathered:
    """What is said once: the objects that it is said of, where, and the first of them."""

    origin: Origin
    objects: int = 0
    kinds: set[GroupVersionKind] = field(default_factory=set)
    clusters: dict[ClusterName, None] = field(default_factory=dict)  # in their order


class Report:
    """Gathers what was found, and says each thing once."""

    def __init__(self, documents: Mapping[str, Origin]) -> None:
        self._documents = documents
        self._units: dict[UnitKey, tuple[Verdict, ...]] = {}
        self._refused: set[UnitKey] = set()
        self._problems: dict[_Declared, dict[tuple[Problem, Origin], dict[ClusterName, None]]] = {}
        self._first: dict[_Declared, ObjectRef] = {}
        self._valid: defaultdict[_Declared, dict[ClusterName, None]] = defaultdict(dict)
        self._gaps: dict[tuple[Gap, GroupVersionKind | None, str], _Gathered] = {}
        self._suspects: list[tuple[Unit, Judged]] = []

    def add(self, unit: Unit, judged: Judged, known: Known) -> None:
        self._units[unit.key] = judged.verdicts
        if Verdict.INVALID in judged.verdicts:
            self._refused.add(unit.key)
        if known.nothing:
            self._note(Gap.NOTHING, None, "", unit, judged.objects, self._documents[unit.key.cluster])
            return
        for position, remark in judged.remarks:
            item = judged.objects[position]
            if isinstance(remark, Gap):
                versions = ", ".join(known.versions(item.gvk.group_kind)) if remark is Gap.NOT_SERVED else ""
                self._note(remark, item.gvk, versions, unit, (item,), item.origin)
                continue
            for sentence in remark.unchecked:
                self._note(Gap.UNCHECKED, None, sentence, unit, (item,), item.origin)
            self._problem(unit, item, remark.problems)
        self._suspects.append((unit, judged))

    def _problem(self, unit: Unit, item: DesiredObject, problems: Iterable[Problem]) -> None:
        for problem in problems:
            declared = _declared(unit, item)
            self._first.setdefault(declared, item.ref)
            at = self._problems.setdefault(declared, {})
            at.setdefault((problem, item.provenance.origin_of(problem.path)), {})[unit.key.cluster] = None

    def _note(
        self,
        gap: Gap,
        gvk: GroupVersionKind | None,
        words: str,
        unit: Unit,
        objects: Sequence[DesiredObject],
        origin: Origin,
    ) -> None:
        noted = self._gaps.setdefault((gap, gvk, words), _Gathered(origin))
        noted.origin = min(noted.origin, origin)
        noted.objects += len(objects)
        noted.kinds.update(item.gvk for item in objects)
        noted.clusters[unit.key.cluster] = None

    def verdicts(self) -> Verdicts:
        if self._problems:
            for unit, judged in self._suspects:
                for item, verdict in zip(judged.objects, judged.verdicts, strict=True):
                    if verdict is Verdict.VALID and (declared := _declared(unit, item)) in self._problems:
                        self._valid[declared][unit.key.cluster] = None
        findings = (*self._refusals(), *self._unverified())
        return Verdicts(findings, frozenset(self._refused), self._units)

    def _refusals(self) -> Iterator[Finding]:
        for declared, problems in self._problems.items():
            _, gvk, _, name = declared
            told = list(problems.items())
            for (problem, origin), clusters in told[:MOST_PROBLEMS]:
                where = f"{spelled(problem.path)}: " if problem.path else ""
                places = _places(clusters, self._valid[declared])
                message = f"{gvk.kind} {name}: {where}{problem.message} (rule: {quoted(problem.rule)}); {places}"
                yield self._refusal(message, origin, declared, problem)
            if len(told) > MOST_PROBLEMS:
                (problem, origin), _ = told[MOST_PROBLEMS]
                message = f"{gvk.kind} {name}: {len(told) - MOST_PROBLEMS} more problems"
                yield self._refusal(message, origin, declared, problem)

    def _refusal(self, message: str, origin: Origin, declared: _Declared, problem: Problem) -> Finding:
        return finding(
            codes.REFUSED_BY_SCHEMA,
            message,
            origin,
            object=self._first[declared],
            workload=declared[0],
            path=problem.path,
        )

    def _unverified(self) -> Iterator[Finding]:
        for (gap, gvk, words), noted in self._grouped().items():
            clusters = _listed("cluster", noted.clusters)
            objects = _count(noted.objects, "object")
            if gap is Gap.NOT_SERVED:
                message = (
                    f"{objects} will wait: {clusters} {'does' if len(noted.clusters) == 1 else 'do'} not serve {gvk}"
                )
                if words:
                    message += f", but {words}"
                yield finding(codes.NOT_SERVED, message, noted.origin)
                continue
            why = {
                Gap.NOTHING: f"no schemas of {clusters} are known",
                Gap.SILENT: f"{clusters} cannot say what {gvk.api_version if gvk else ''} serves",
                Gap.NO_SCHEMA: f"no schema is known for {clusters}",
                Gap.UNCHECKED: f"{words} ({clusters})",
            }[gap]
            of = f"{objects} of {_kinds(noted.kinds)}"
            code = codes.UNCHECKED if gap is Gap.UNCHECKED else codes.UNVERIFIED
            yield finding(code, f"not verified: {of}: {why}", noted.origin)

    def _grouped(self) -> dict[tuple[Gap, GroupVersionKind | None, str], _Gathered]:
        """Kinds without a schema together, where they are without on the same clusters."""
        found: dict[tuple[Gap, GroupVersionKind | None, str], _Gathered] = {}
        for (gap, gvk, words), noted in self._gaps.items():
            alike = gap is Gap.NO_SCHEMA
            key = (gap, None, " ".join(noted.clusters)) if alike else (gap, gvk, words)
            known = found.setdefault(key, noted)
            if known is not noted:
                known.origin = min(known.origin, noted.origin)
                known.objects += noted.objects
                known.kinds |= noted.kinds
        return found


def _declared(unit: Unit, item: DesiredObject) -> _Declared:
    return unit.key.workload, item.gvk, "" if unit.namespace else item.ref.namespace, item.ref.name


def _places(refusing: Iterable[str], valid: Iterable[str]) -> str:
    """`refused by cluster b, valid on cluster a`: the same manifest may be both (cases.md N07)."""
    others = [name for name in valid if name not in set(refusing)]
    said = f"refused by {_listed('cluster', refusing)}"
    return f"{said}, valid on {_listed('cluster', others)}" if others else said


def _listed(word: str, names: Iterable[str], limit: int = 10) -> str:
    every = list(names)
    more = f" and {len(every) - limit} more" if len(every) > limit else ""
    return f"{word}{'' if len(every) == 1 else 's'} {', '.join(every[:limit])}{more}"


def _kinds(kinds: Collection[GroupVersionKind]) -> str:
    if len(kinds) == 1:
        return str(next(iter(kinds)))
    return (
        f"{len(kinds)} kinds ({', '.join(sorted({gvk.kind for gvk in kinds})[:10])}{', …' if len(kinds) > 10 else ''})"
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"
