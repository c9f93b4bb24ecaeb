"""Verdicts on finished units: would the API servers of their clusters take the objects, as they are sent?

A pass over what was compiled, and no part of compiling a workload: clusters tell their schemas at any time, and no
object changes by that. A unit with a refused object stays at its last good commit; the workload's units on clusters
that take theirs go on, as they do when an API server refuses (cases.md N07). What could not be checked is said once for
the whole repository, never passed over.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gitops.manifests.canonical import canonical_json, copy_json, digest
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import ClusterName, GroupKind, GroupVersionKind, ObjectRef, UnitKey, WorkloadRef
from gitops.model.kinds import DEFINITION
from gitops.plan.field_paths import spelled
from gitops.plan.references import defined_kind
from gitops.plan.units import PART_OF_LABEL, DesiredObject, Trigger, Unit
from gitops.policy import codes
from gitops.policy.facts import NOTHING_KNOWN, ClusterFacts, Facts
from gitops.policy.published import NOTHING_PUBLISHED, Published
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.schemas.schema_set import ClusterSchemas, SchemaSet
from gitops.policy.schemas.sources import kinds_of_definition
from gitops.policy.verdicts import Judgement, Problem, Verdict, quoted

JUDGEMENTS_KEPT = 20_000
"""Objects whose judgement is remembered: a schema that changes has few of them judged anew."""

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


class _Gap(enum.Enum):
    """Why there is nothing to judge an object with."""

    NOTHING = enum.auto()  # nothing is known of the cluster's schemas
    NO_SCHEMA = enum.auto()
    SILENT = enum.auto()  # discovery of the kind's API version fails
    NOT_SERVED = enum.auto()
    UNCHECKED = enum.auto()  # judged, but for a part of it


_Remark = Judgement | _Gap


@dataclass(frozen=True, slots=True)
class _Judged:
    """What was found about a unit. `remarks` are those of objects that are not plainly valid, by position."""

    objects: tuple[DesiredObject, ...]
    knowledge: bytes
    verdicts: tuple[Verdict, ...]
    remarks: tuple[tuple[int, _Remark], ...]


@dataclass(frozen=True, slots=True)
class _Defined:
    """What a definition in the repository gives: its kind, and the schemas of the versions that it serves."""

    kind: GroupKind | None
    schemas: tuple[KindSchema, ...]


class _Definitions:
    """Definitions by their digest. They are on every cluster, differ there by a mark alone, and take milliseconds to
    read: each spec is read once for all of them, and each object once for all commits that have it."""

    def __init__(self) -> None:
        self._before: dict[bytes, _Defined] = {}
        self._now: dict[bytes, _Defined] = {}

    def get(self, item: DesiredObject) -> _Defined:
        found = self._now.get(item.digest) or self._before.get(item.digest)
        if found is None:
            body = item.body
            of_spec = digest(canonical_json(body.get("spec")))
            found = self._now.get(of_spec) or self._before.get(of_spec)
            if found is None:
                found = _Defined(defined_kind(body), tuple(kinds_of_definition(body)))
            self._now[of_spec] = found
        self._now[item.digest] = found
        return found

    def forget(self) -> None:
        """Those that the last compile had no use for."""
        self._before, self._now = self._now, {}


class Validator:
    """Remembers what it found; a Compiler has one. `files`: schemas for what clusters do not tell."""

    def __init__(self, files: Published = NOTHING_PUBLISHED) -> None:
        self._files = files
        self._definitions = _Definitions()
        self._judgements: OrderedDict[tuple[bytes, bytes], Judgement] = OrderedDict()
        self._units: dict[UnitKey, _Judged] = {}

    def validate(
        self, sound: Iterable[Unit], doubtful: Iterable[Unit], facts: Facts, documents: Mapping[str, Origin]
    ) -> Verdicts:
        """Judge every unit by what is known of its cluster. `documents`: where each cluster is declared. Of workloads
        with errors nothing will be there yet: definitions of `doubtful` units hold for those alone."""
        by_cluster: defaultdict[ClusterName, tuple[list[Unit], list[Unit]]] = defaultdict(lambda: ([], []))
        for which, units in enumerate((sound, doubtful)):
            for unit in units:
                by_cluster[unit.key.cluster][which].append(unit)
        report, before, self._units = _Report(documents), self._units, {}
        schemas = {}
        for cluster, (sure, unsure) in sorted(by_cluster.items()):
            copied = self._files.facts.get(cluster, NOTHING_KNOWN).schemas
            told, files = facts.get(cluster, NOTHING_KNOWN), self._files.schemas.overlaid(copied)
            defined, more = self._defined(sure), self._defined(unsure)
            of_sure = _Known(told, files, defined)
            of_unsure = _Known(told, files, [*defined, *more]) if more else of_sure
            schemas[cluster] = of_sure.schema
            for unit, known in (*((u, of_sure) for u in sure), *((u, of_unsure) for u in unsure)):
                judged = before.get(unit.key)
                if judged is None or judged.objects is not unit.objects or judged.knowledge != known.digest:
                    judged = self._unit(unit.objects, known)
                self._units[unit.key] = judged
                report.add(unit, judged, known)
        self._definitions.forget()
        while len(self._judgements) > JUDGEMENTS_KEPT:
            self._judgements.popitem(last=False)
        return replace(report.verdicts(), schemas=schemas)

    def _defined(self, units: Iterable[Unit]) -> list[tuple[bytes, _Defined]]:
        items = (o for unit in units for o in unit.objects if o.gvk == DEFINITION)
        return [(o.digest, self._definitions.get(o)) for o in items]

    def _unit(self, objects: tuple[DesiredObject, ...], known: _Known) -> _Judged:
        if known.nothing:
            remarks: list[tuple[int, _Remark]] = [(i, _Gap.NOTHING) for i in range(len(objects))]
            return _Judged(objects, known.digest, (Verdict.UNVERIFIED,) * len(objects), tuple(remarks))
        verdicts, remarks = [], []
        for position, item in enumerate(objects):
            schema = known.schema(item.gvk)
            found = known.gap(item.gvk) if schema is None else self._judge(item, schema, known.digest_of(schema))
            verdicts.append(Verdict.UNVERIFIED if isinstance(found, _Gap) else found.verdict)
            if verdicts[-1] is not Verdict.VALID:
                remarks.append((position, found))
        return _Judged(objects, known.digest, tuple(verdicts), tuple(remarks))

    def _judge(self, item: DesiredObject, schema: KindSchema, of_schema: bytes) -> Judgement:
        """Once for all instances: namespace and marks are ours, and no schema minds them."""
        body = item.body
        metadata = {k: v for k, v in body["metadata"].items() if k != "namespace"}
        metadata["labels"] = {k: v for k, v in metadata["labels"].items() if k != PART_OF_LABEL}
        triggers = item.handling.triggers
        values = [[trigger.path, trigger.value] for trigger in triggers]
        key = (of_schema, digest(canonical_json([{**body, "metadata": metadata}, *values])))
        found = self._judgements.get(key)
        if found is None:
            found = schema.judge(body)
            if triggers and found.verdict is Verdict.VALID:  # they are sent to the object when it is there
                found = schema.judge(_started(body, triggers), body, declared=True)
            self._judgements[key] = found
        else:
            self._judgements.move_to_end(key)
        return found


def _started(body: Mapping[str, Any], triggers: Iterable[Trigger]) -> dict[str, Any]:
    """The object with its triggers."""
    whole: dict[str, Any] = copy_json(dict(body))
    for trigger in triggers:
        *parents, last = trigger.path
        holder = whole
        for part in parents:
            holder = holder.setdefault(part, {})
        holder[last] = msgspec.json.decode(trigger.value)
    return whole


class _Known:
    """What objects on one cluster are judged with: definitions of the repository win, since they will be there; then
    what the cluster tells, then files."""

    def __init__(self, facts: ClusterFacts, files: SchemaSet, defined: Sequence[tuple[bytes, _Defined]]) -> None:
        self.facts = facts
        self.defined = {each.kind for _, each in defined if each.kind is not None}
        self._declared = {schema.gvk: schema for _, each in defined for schema in each.schemas}
        self._files = files
        parts = [facts.digest, files.digest.hex(), sorted(content.hex() for content, _ in defined)]
        self.digest = digest(canonical_json(parts))
        self._digests: dict[GroupVersionKind, bytes] = {}
        self.nothing = not (facts.schemas.kinds or facts.served or files.kinds or defined)

    def schema(self, gvk: GroupVersionKind) -> KindSchema | None:
        declared = self._declared.get(gvk)
        if declared is not None or gvk.group_kind in self.defined:
            return declared
        return self.facts.schemas.get(gvk) or self._files.get(gvk)

    def digest_of(self, schema: KindSchema) -> bytes:
        """Of what it says: clusters have the same schemas."""
        known = self._digests.get(schema.gvk)
        if known is None:
            known = self._digests[schema.gvk] = digest(schema.content)
        return known

    def gap(self, gvk: GroupVersionKind) -> _Gap:
        """Why there is no schema of the kind."""
        if gvk.group_kind in self.defined:
            return _Gap.NOT_SERVED if self._versions(gvk.group_kind, self._declared) else _Gap.NO_SCHEMA
        served = self.facts.serves(gvk)
        if served is None:
            return _Gap.SILENT if self.facts.served is not None else _Gap.NO_SCHEMA
        return _Gap.NO_SCHEMA if served else _Gap.NOT_SERVED

    def versions(self, kind: GroupKind) -> list[str]:
        """Other versions of a kind that is there at none of those that are asked for."""
        declared = self._versions(kind, self._declared)
        return declared or self._versions(kind, self.facts.served or ())

    @staticmethod
    def _versions(kind: GroupKind, kinds: Iterable[GroupVersionKind]) -> list[str]:
        return sorted(gvk.api_version for gvk in kinds if gvk.group_kind == kind)


# -- findings ----------------------------------------------------------------------------------------------------------

_Declared = tuple[WorkloadRef, GroupVersionKind, str, str]
"""An object as people declare it: workload, kind, namespace ("" for an instance's own) and name."""


@dataclass(slots=True)
class _Gathered:
    """What is said once: the objects that it is said of, where, and the first of them."""

    origin: Origin
    objects: int = 0
    kinds: set[GroupVersionKind] = field(default_factory=set)
    clusters: dict[ClusterName, None] = field(default_factory=dict)  # in their order


class _Report:
    """Gathers what was found, and says each thing once."""

    def __init__(self, documents: Mapping[str, Origin]) -> None:
        self._documents = documents
        self._units: dict[UnitKey, tuple[Verdict, ...]] = {}
        self._refused: set[UnitKey] = set()
        self._problems: dict[_Declared, dict[tuple[Problem, Origin], dict[ClusterName, None]]] = {}
        self._first: dict[_Declared, ObjectRef] = {}
        self._valid: defaultdict[_Declared, dict[ClusterName, None]] = defaultdict(dict)
        self._gaps: dict[tuple[_Gap, GroupVersionKind | None, str], _Gathered] = {}
        self._suspects: list[tuple[Unit, _Judged]] = []

    def add(self, unit: Unit, judged: _Judged, known: _Known) -> None:
        self._units[unit.key] = judged.verdicts
        if Verdict.INVALID in judged.verdicts:
            self._refused.add(unit.key)
        if known.nothing:
            self._note(_Gap.NOTHING, None, "", unit, judged.objects, self._documents[unit.key.cluster])
            return
        for position, remark in judged.remarks:
            item = judged.objects[position]
            if isinstance(remark, _Gap):
                versions = ", ".join(known.versions(item.gvk.group_kind)) if remark is _Gap.NOT_SERVED else ""
                self._note(remark, item.gvk, versions, unit, (item,), item.origin)
                continue
            for sentence in remark.unchecked:
                self._note(_Gap.UNCHECKED, None, sentence, unit, (item,), item.origin)
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
        gap: _Gap,
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
            if gap is _Gap.NOT_SERVED:
                message = (
                    f"{objects} will wait: {clusters} {'does' if len(noted.clusters) == 1 else 'do'} not serve {gvk}"
                )
                if words:
                    message += f", but {words}"
                yield finding(codes.NOT_SERVED, message, noted.origin)
                continue
            why = {
                _Gap.NOTHING: f"no schemas of {clusters} are known",
                _Gap.SILENT: f"{clusters} cannot say what {gvk.api_version if gvk else ''} serves",
                _Gap.NO_SCHEMA: f"no schema is known for {clusters}",
                _Gap.UNCHECKED: f"{words} ({clusters})",
            }[gap]
            of = f"{objects} of {_kinds(noted.kinds)}"
            code = codes.UNCHECKED if gap is _Gap.UNCHECKED else codes.UNVERIFIED
            yield finding(code, f"not verified: {of}: {why}", noted.origin)

    def _grouped(self) -> dict[tuple[_Gap, GroupVersionKind | None, str], _Gathered]:
        """Kinds without a schema together, where they are without on the same clusters."""
        found: dict[tuple[_Gap, GroupVersionKind | None, str], _Gathered] = {}
        for (gap, gvk, words), noted in self._gaps.items():
            alike = gap is _Gap.NO_SCHEMA
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
