"""Verdicts on finished units: would the API servers of their clusters take the objects, as they are sent?

A pass over what was compiled, and no part of compiling a workload: clusters tell their schemas at any time, and no
object changes by that. A unit with a refused object stays at its last good commit; the workload's units on clusters
that take theirs go on, as they do when an API server refuses (cases.md N07). What could not be checked is said once for
the whole repository, never passed over.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import msgspec

from gitops.manifests.canonical import canonical_json, copy_json, digest
from gitops.model.findings import Origin
from gitops.model.identity import ClusterName, UnitKey
from gitops.model.kinds import DEFINITION
from gitops.plan.known_schemas import Defined, Definitions, Gap, Known
from gitops.plan.units import PART_OF_LABEL, DesiredObject, Trigger, Unit
from gitops.plan.verdict_findings import Judged, Remark, Report, Verdicts
from gitops.policy.facts import NOTHING_KNOWN, Facts
from gitops.policy.published import NOTHING_PUBLISHED, Published
from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.verdicts import Judgement, Verdict

JUDGEMENTS_KEPT = 20_000
"""Objects whose judgement is remembered: a schema that changes has few of them judged anew."""


class Validator:
    """Remembers what it found; a Compiler has one. `files`: schemas for what clusters do not tell."""

    def __init__(self, files: Published = NOTHING_PUBLISHED) -> None:
        self._files = files
        self._definitions = Definitions()
        self._judgements: OrderedDict[tuple[bytes, bytes], Judgement] = OrderedDict()
        self._units: dict[UnitKey, Judged] = {}

    def validate(
        self, sound: Iterable[Unit], doubtful: Iterable[Unit], facts: Facts, documents: Mapping[str, Origin]
    ) -> Verdicts:
        """Judge every unit by what is known of its cluster. `documents`: where each cluster is declared. Of workloads
        with errors nothing will be there yet: definitions of `doubtful` units hold for those alone."""
        by_cluster: defaultdict[ClusterName, tuple[list[Unit], list[Unit]]] = defaultdict(lambda: ([], []))
        for which, units in enumerate((sound, doubtful)):
            for unit in units:
                by_cluster[unit.key.cluster][which].append(unit)
        report, before, self._units = Report(documents), self._units, {}
        schemas = {}
        for cluster, (sure, unsure) in sorted(by_cluster.items()):
            copied = self._files.facts.get(cluster, NOTHING_KNOWN).schemas
            told, files = facts.get(cluster, NOTHING_KNOWN), self._files.schemas.overlaid(copied)
            defined, more = self._defined(sure), self._defined(unsure)
            of_sure = Known(told, files, defined)
            of_unsure = Known(told, files, [*defined, *more]) if more else of_sure
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

    def _defined(self, units: Iterable[Unit]) -> list[tuple[bytes, Defined]]:
        items = (o for unit in units for o in unit.objects if o.gvk == DEFINITION)
        return [(o.digest, self._definitions.get(o)) for o in items]

    def _unit(self, objects: tuple[DesiredObject, ...], known: Known) -> Judged:
        if known.nothing:
            remarks: list[tuple[int, Remark]] = [(i, Gap.NOTHING) for i in range(len(objects))]
            return Judged(objects, known.digest, (Verdict.UNVERIFIED,) * len(objects), tuple(remarks))
        verdicts, remarks = [], []
        for position, item in enumerate(objects):
            schema = known.schema(item.gvk)
            found = known.gap(item.gvk) if schema is None else self._judge(item, schema, known.digest_of(schema))
            verdicts.append(Verdict.UNVERIFIED if isinstance(found, Gap) else found.verdict)
            if verdicts[-1] is not Verdict.VALID:
                remarks.append((position, found))
        return Judged(objects, known.digest, tuple(verdicts), tuple(remarks))

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
