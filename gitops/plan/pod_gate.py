"""Pods of a workload against the Pod Security levels of their namespaces, and objects against a validation policy.

The server itself looks at pods only: it takes a custom resource or a Deployment, and refuses the pods later. So what a
level enforces is an error here, at the line that asks for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import ObjectRef, WorkloadRef
from gitops.model.kinds import NAMESPACE
from gitops.plan.building import CleanObject
from gitops.policy import codes
from gitops.policy.pods.levels import Applies, PodSecurity, Standard
from gitops.policy.pods.places import PodPart, pod_parts
from gitops.policy.pods.standards import Violation, violations
from gitops.policy.registry import OperatorRegistry
from gitops.policy.validation import ValidationRules, refusals

MAX_FINDINGS = 100
"""Of one object."""

_NAMED = 3

Parts = tuple[tuple[PodPart, tuple[Violation, ...]], ...]
"""Pods of an object, each with what any level finds wrong with it."""


@dataclass(frozen=True, slots=True)
class _Remark:
    """A finding but for the clusters where it holds: instances, and specifications, mostly share it."""

    code: str
    ref: ObjectRef
    path: Path
    origin: Origin
    message: str


@dataclass(slots=True)
class PodGate:
    """Gathers what the objects of one workload break, namespace by namespace."""

    workload: WorkloadRef
    registry: OperatorRegistry
    _parts: dict[int, tuple[CleanObject, Parts]] = field(default_factory=dict)
    _remarks: dict[_Remark, dict[str, None]] = field(default_factory=dict)
    _seen: set[tuple[int, str]] = field(default_factory=set)

    def parts(self, item: CleanObject) -> Parts:
        """Pods of an object, and what is wrong with them; worked out once."""
        if id(item) not in self._parts:
            found = pod_parts(item.body, item.gvk, self.registry.pod_templates(item.gvk))
            self._parts[id(item)] = item, tuple((part, tuple(violations(part))) for part in found)
        return self._parts[id(item)][1]

    def instance(
        self, objects: Sequence[CleanObject], labels: Mapping[str, Any], cluster: str, server: int | None
    ) -> None:
        """Objects that share a namespace with these labels, on a cluster of Kubernetes 1.`server`. Instances there
        share the objects, too."""
        security = PodSecurity.of(labels, server)
        if security == PodSecurity() or not objects or (id(objects[0]), cluster) in self._seen:
            return
        self._seen.add((id(objects[0]), cluster))
        for item in objects:
            self._judge(item, security, cluster)

    def bundle(self, objects: Sequence[CleanObject], cluster: str, server: int | None) -> None:
        """Objects of a bundle, in the namespaces that it declares itself; levels of others are not known."""
        levels = {
            item.ref.name: PodSecurity.of(item.body["metadata"].get("labels", {}), server)
            for item in objects
            if item.ref.group_kind == NAMESPACE.group_kind
        }
        for item in objects:
            security = levels.get(item.ref.namespace)
            if security is not None and security != PodSecurity():
                self._judge(item, security, cluster)

    def findings(self) -> Iterator[Finding]:
        """What was found, each once with the clusters where it holds."""
        counts: Counter[ObjectRef] = Counter()
        for remark, places in self._remarks.items():
            counts[remark.ref] += 1
            if counts[remark.ref] <= MAX_FINDINGS:
                names = sorted(places)
                more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
                words = f"{remark.message} on {', '.join(names[:_NAMED])}{more}"
                ref, path = remark.ref, remark.path
                yield finding(remark.code, words, remark.origin, object=ref, workload=self.workload, path=path)

    def _judge(self, item: CleanObject, security: PodSecurity, cluster: str) -> None:
        for part, found in self.parts(item):
            undecided: dict[str, None] = {}
            for violation in found:
                code, standard = _verdict(violation, security)
                if violation.missing and not part.complete:
                    if code == codes.POD_REFUSED:
                        undecided[violation.control] = None
                elif code:
                    rule = f"{violation.control}, Pod Security {standard.level}"
                    self._say(code, item, violation.path, f"{violation.message} ({rule})", cluster)
            if undecided:
                message = f"does not say all that Pod Security {security.enforce.level} requires"
                self._say(codes.POD_UNDECIDED, item, part.spec[0], f"{message} ({', '.join(undecided)})", cluster)

    def _say(self, code: str, item: CleanObject, path: Path, message: str, cluster: str) -> None:
        text = f"{item.ref.kind} {item.ref.name}: {dotted(path)} {message}"
        remark = _Remark(code, item.ref, path, item.provenance.origin_of(path), text)
        self._remarks.setdefault(remark, {})[cluster] = None


def _verdict(violation: Violation, security: PodSecurity) -> tuple[str, Standard]:
    """The finding's code and the standard that makes it one; "" for none."""
    enforced = security.enforce.applies(violation)
    if enforced is Applies.YES:
        return codes.POD_REFUSED, security.enforce
    if enforced is Applies.SOME_VERSIONS:
        return codes.POD_DEPENDS, security.enforce
    warned = security.warn.applies(violation) is not Applies.NO
    return codes.POD_WARNED if warned else "", security.warn


def policy_findings(objects: Sequence[CleanObject], rules: ValidationRules, pods: PodGate) -> Iterator[Finding]:
    """What a validation policy does not allow of the objects of one GPU specification."""
    for item in objects if rules.strict else ():
        services = pods.registry.service_types(item.gvk.group_kind)
        found = refusals(item.body, item.gvk, pods.parts(item), services)
        for path, message, rule in islice(dict.fromkeys(found), MAX_FINDINGS):
            where = f"{item.ref.kind} {item.ref.name}: {dotted(path)}"
            words = f"{where} {message} ({rule}, validation policy {rules.name})"
            origin = item.provenance.origin_of(path)
            yield finding(codes.NOT_VALID, words, origin, object=item.ref, workload=pods.workload, path=path)
