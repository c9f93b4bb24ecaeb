"""Units and the desired objects in them: what compile produces and everything after it works on."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from gitops.model.adoption import WITHOUT_A_WORD, Adoption
from gitops.model.clusters import Cluster
from gitops.model.findings import Finding, Origin
from gitops.model.identity import Commit, GroupVersionKind, ObjectRef, UnitKey, WorkloadRef
from gitops.model.repositories import Repository
from gitops.overlays.provenance import Provenance
from gitops.policy.allocation import Decision
from gitops.policy.schemas.schema_set import ClusterSchemas
from gitops.policy.verdicts import Verdict

RECONCILER_LABEL = "gitops/reconciler"
"""Label on every object we apply; the selector of all our watches (design: one full watch per cluster and kind)."""

PART_OF_LABEL = "applyset.kubernetes.io/part-of"
"""KEP-3659: the ApplySet id of the unit's parent."""

SOURCE_ANNOTATION = "gitops/source"
"""File that declares the object: the only annotation of ours besides the two labels."""


class Stage(enum.IntEnum):
    """Order of apply; that of deletion is in gitops/plan/removal.py."""

    NAMESPACE = 0
    BOUNDS = 1  # ResourceQuota, LimitRange, NetworkPolicy: before anything that they bound
    SECRETS = 2  # copies of Secrets that the workload names: before any account or pod that uses them
    ACCESS = 3  # ServiceAccount, Role, RoleBinding, …
    CONFIG = 4  # ConfigMap, Secret, PVC, Service, …
    DEFINITION = 5  # CustomResourceDefinition
    CUSTOM_EARLY = 6  # custom resources that others wait for (NIMCache)
    CUSTOM = 7
    WORKLOAD = 8
    ADMISSION = 9  # webhook configurations: last, after what serves them


class Mode(enum.StrEnum):
    """What the daemon may do; the strictest of cluster, unit and object wins."""

    ENFORCE = "enforce"
    REPORT = "report"  # Git changes apply, drift is only reported
    PAUSED = "paused"  # no writes


def stricter(*modes: str) -> Mode:
    """The strictest of these modes."""
    return max(map(Mode, modes), key=_STRICTNESS.index)


_STRICTNESS = (Mode.ENFORCE, Mode.REPORT, Mode.PAUSED)


@dataclass(frozen=True, slots=True)
class Trigger:
    """A field that starts something when its value changes. It describes no state, so it is no part of the payload:
    each value is sent once, beside it (gitops/plan/once.py). `value` is canonical JSON."""

    path: tuple[str, ...]
    value: bytes


@dataclass(frozen=True, slots=True)
class Handling:
    """What is special about writing an object: nothing about most."""

    triggers: tuple[Trigger, ...] = ()
    once: bool = False  # it does its work once: never made again when it is gone
    recreate: bool = False  # its author allows that it is deleted and made again for an immutable field
    mode: Mode = Mode.ENFORCE  # by a word on the object itself
    content: bytes = b""  # digest of the object as Git has it; what is sent of it may be less for a while


PLAIN = Handling()


@dataclass(frozen=True, slots=True)
class DesiredObject:
    """One merged, validated object exactly as it is sent.

    `payload` is the JSON body of the apply (labels, annotation and namespace included, quantities canonical, no status,
    no nulls); kept as bytes because a decoded one costs ten times as much memory (facts: 569 B against 23.6 KB).
    """

    ref: ObjectRef
    gvk: GroupVersionKind
    payload: bytes = field(repr=False)  # may hold the values of a Secret
    digest: bytes = field(repr=False)  # 16 bytes over canonical JSON: equal digests, equal objects
    origin: Origin
    provenance: Provenance
    stage: Stage
    component: int = 0  # index of the failure domain within the unit
    depends_on: tuple[ObjectRef, ...] = ()  # objects of the unit that its author wants applied before
    after_ready: tuple[ObjectRef, ...] = ()  # objects of the unit that must be ready before it is applied
    handling: Handling = PLAIN

    @property
    def content(self) -> bytes:
        """Digest of the object as Git has it."""
        return self.handling.content or self.digest

    @property
    def body(self) -> dict[str, Any]:
        """The payload decoded; a fresh copy each time, so callers may change it."""
        decoded: dict[str, Any] = msgspec.json.decode(self.payload)
        return decoded


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A Secret of `gitops-secrets` on the target cluster that the unit wants a copy of, by its name.

    `users` are the components with an object that names it; empty when none does: then it is for pods that somebody
    makes of these objects, and any of them may.
    """

    name: str
    origin: Origin
    users: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Unit:
    """What one workload wants on one cluster for one instance. `objects` are in apply order; copies of the Secrets in
    `secret_refs` are among them only where the content of those Secrets is known (reconcile/state.py)."""

    key: UnitKey
    content_key: str  # digest of all inputs: equal keys, nothing to do
    commit: Commit  # the commit it was compiled from
    namespace: str  # the unit's own namespace; "" for a Bundle
    objects: tuple[DesiredObject, ...]
    mode: Mode = Mode.ENFORCE
    version: str = ""  # the Function's or Task's declared version
    operator_types: tuple[str, ...] = ()
    service_name: str = ""  # the Service behind which the function answers; "" when none is declared
    service_port: int | None = None
    adoption: Adoption = WITHOUT_A_WORD  # as the workload says it; the repository has a word in it too
    base_digest: str = ""  # over a Function's base before overlays: must not change under one version
    service_account: str = ""  # `namespace/name` in whose name its objects are written; "" = the daemon's own rights
    secret_refs: tuple[SecretRef, ...] = ()

    def copy_of(self, secret: str) -> ObjectRef:
        """The copy of a Secret that the unit names."""
        return ObjectRef("", "Secret", self.namespace, secret)

    @property
    def names(self) -> frozenset[ObjectRef]:
        """Every object that the unit has by Git's word. A copy whose source is missing or unknown is one too: what is
        not known of a source never takes the copy away (I1)."""
        return frozenset((*(o.ref for o in self.objects), *(self.copy_of(ref.name) for ref in self.secret_refs)))


@dataclass(frozen=True, slots=True)
class Compilation:
    """A whole tree compiled.

    `held` are workloads that have errors: their units are absent from `units` and stay at their last good commit.
    `refused` are units with an object that their own cluster would not take; they too are absent from `units` and stay
    at their last good commit, while the workload goes on elsewhere. `verdicts` are of the objects of every unit, in
    their order, where somebody asked for them; `schemas` tells what they were judged with.
    `complete` is False when something unreadable hides which workloads exist at all: nothing may then be pruned (I1).
    """

    commit: Commit
    repository: Repository | None
    clusters: Mapping[str, Cluster]
    units: Mapping[UnitKey, Unit]
    findings: tuple[Finding, ...]
    held: frozenset[WorkloadRef]
    complete: bool
    left_alone: frozenset[WorkloadRef] = frozenset()  # held without an error: kinds that this version does not run
    not_run: Mapping[UnitKey, Unit] = field(default_factory=dict)  # what those would have
    refused: Mapping[UnitKey, Unit] = field(default_factory=dict)
    verdicts: Mapping[UnitKey, tuple[Verdict, ...]] = field(default_factory=dict)
    unreadable_clusters: frozenset[str] = frozenset()  # declared, but unusable now: neither pruned nor released
    named: Mapping[WorkloadRef, frozenset[ObjectRef]] = field(default_factory=dict)
    """What workloads name at this commit that are held, refused or barred somewhere, where all of it can be read: it
    may have moved there."""
    schemas: ClusterSchemas = field(default_factory=dict, compare=False, repr=False)
    kept: frozenset[UnitKey] = frozenset()
    """Live units that stay as they are, neither changed nor removed: their operator may not be used there."""
    decisions: tuple[Decision, ...] = ()
    """Why each specification is where it is."""

    def judged(self) -> Iterator[tuple[Unit, DesiredObject, Verdict]]:
        """Every object of every unit, refused ones too, with its verdict; one that nobody asked for is unverified."""
        for key, unit in sorted({**self.units, **self.refused, **self.not_run}.items()):
            verdicts = self.verdicts.get(key) or (Verdict.UNVERIFIED,) * len(unit.objects)
            for item, verdict in zip(unit.objects, verdicts, strict=True):
                yield unit, item, verdict

    @property
    def errors(self) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.severity == "error")
