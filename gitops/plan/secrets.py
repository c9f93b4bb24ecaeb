"""Secrets that a workload names: which objects need them, and what a copy of one is.

Git holds names only. The content is in Secrets of `gitops-secrets` on each target cluster, where people or a secret
store put it; the reconciler copies the named ones into the namespace of each instance (reconcile/secret_sources.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gitops.manifests.canonical import canonical_json, digest
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.findings import Finding, Origin
from gitops.model.identity import WorkloadRef
from gitops.model.kinds import SECRET
from gitops.model.serving import Base
from gitops.overlays.provenance import Provenance
from gitops.plan import codes
from gitops.plan.building import CleanObject, Marks
from gitops.plan.references import references
from gitops.plan.units import DesiredObject, SecretRef, Stage, Unit


@dataclass(frozen=True, slots=True)
class SourceSecret:
    """What a copy takes over of a Secret, as the API server stores it (values are base64)."""

    type: str
    data: Mapping[str, str] = field(repr=False)
    immutable: bool | None = None


def named_secrets(spec: Base, document: RawDocument) -> tuple[SecretRef, ...]:
    """The Secrets that a function or task names, each with where it does."""
    places = ((ref.name, ("spec", "secretRefs", i, "name")) for i, ref in enumerate(spec.secretRefs))
    return tuple(SecretRef(name, Origin(document.file, document.lines.line_of(at))) for name, at in places)


def declared_beside(
    refs: Sequence[SecretRef], objects: Sequence[CleanObject], workload: WorkloadRef
) -> Iterator[Finding]:
    """Secrets that a workload both names and declares: a copy and a manifest would be one object."""
    named = {ref.name: ref for ref in refs}
    for item in objects if named else ():
        if item.gvk == SECRET and item.ref.name in named:
            at = named[item.ref.name].origin
            message = f"Secret {item.ref.name} is declared here and named under secretRefs at {at}"
            origin = item.provenance.origin_of(())
            yield finding(codes.SECRET_DECLARED_AND_NAMED, message, origin, object=item.ref, workload=workload)


def with_users(refs: Sequence[SecretRef], objects: Sequence[DesiredObject]) -> tuple[SecretRef, ...]:
    """The references with the components of the unit that name them."""
    users: dict[str, set[int]] = {ref.name: set() for ref in refs}
    for item in objects if users else ():
        for kind, _, name in references(item.body):
            if kind == SECRET.group_kind and name in users:
                users[name].add(item.component)
    return tuple(SecretRef(ref.name, ref.origin, tuple(sorted(users[ref.name]))) for ref in refs)


def secret_copy(unit: Unit, ref: SecretRef, source: SourceSecret, *, reconciler: str) -> DesiredObject:
    """The copy as it is sent: type, data and `immutable` of the source with our marks, and nothing else of it. No
    annotation of the source comes along: it may hold the values (kubectl's last-applied-configuration does).

    A copy is a component of its own: that it is refused stops what names it, and nothing else of that stops it.
    """
    target = unit.copy_of(ref.name)
    body: dict[str, Any] = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": ref.name}, "type": source.type}
    if source.data:
        body["data"] = dict(source.data)
    if source.immutable is not None:
        body["immutable"] = source.immutable
    marks = Marks.of(reconciler, unit.key)
    payload = canonical_json(marks.apply(body, source=ref.origin.file, namespace=unit.namespace))
    names = sorted(each.name for each in unit.secret_refs)
    return DesiredObject(
        ref=target,
        gvk=SECRET,
        payload=payload,
        digest=digest(payload),
        origin=ref.origin,
        provenance=Provenance.of_origin(ref.origin),
        stage=Stage.SECRETS,
        component=-1 - names.index(ref.name),
    )
