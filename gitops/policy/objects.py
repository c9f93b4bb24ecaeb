"""Rules for one merged object, whatever its workload.

The merged object is judged, never the base or a patch alone. Every problem is reported, with the file and line that set
the value; a value itself is never shown unless it is a number or a truth value.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import Any

from gitops.manifests.codes import TOO_MANY_FINDINGS
from gitops.manifests.lines import Path, dotted
from gitops.model.catalogue import finding
from gitops.model.findings import Finding
from gitops.model.identity import GroupVersionKind, ObjectRef, WorkloadRef
from gitops.model.kinds import CONFIG_MAP, DEFINITION, NAMESPACE, SECRET
from gitops.model.object_rules import NameLimit
from gitops.overlays.patches import RESERVED_PREFIXES
from gitops.overlays.provenance import Provenance
from gitops.policy import codes
from gitops.policy.annotations import (
    ALLOW_CREDENTIAL_LIKE,
    ALLOW_DELETE,
    CONFLICTS,
    DEPENDS_ON,
    IGNORE_DRIFT,
    MODE,
    RECREATE,
    Wishes,
    read_wishes,
)
from gitops.policy.claimed import dummies
from gitops.policy.credentials import looks_like
from gitops.policy.field_rules import equal_items, file_mode_problem, values_at
from gitops.policy.operator_rules import manifest_problems
from gitops.policy.pods.levels import bad_labels
from gitops.policy.rbac.declared import problems_of
from gitops.policy.rbac.roles import GROUP as RBAC_GROUP
from gitops.policy.registry import OperatorRegistry

MAX_FINDINGS = 100
"""Of one object."""

TEXT_MAPS = frozenset({"annotations", "labels", "matchLabels", "nodeSelector"})
"""Maps from text to text wherever Kubernetes and the operators' kinds use the name."""

_NOT_SENT = frozenset({DEPENDS_ON, ALLOW_CREDENTIAL_LIKE, MODE, RECREATE})
_ALLOWED = frozenset({*_NOT_SENT, ALLOW_DELETE, CONFLICTS, IGNORE_DRIFT})


@dataclass(slots=True)
class Judged:
    """The result: what our annotations ask, and what is wrong."""

    wishes: Wishes = field(default_factory=Wishes)
    findings: list[Finding] = field(default_factory=list)


def judge(
    body: dict[str, Any],
    *,
    ref: ObjectRef,
    provenance: Provenance,
    workload: WorkloadRef | None,
    registry: OperatorRegistry,
) -> Judged:
    """Report what is wrong with a merged object; our own annotations and a Secret's data are taken out of it in place.

    `body` has been through manifests.sanitizing and shares nothing with another object.
    """
    return _Judge(body, ref, provenance, workload, registry).run()


class _Judge:
    def __init__(
        self,
        body: dict[str, Any],
        ref: ObjectRef,
        provenance: Provenance,
        workload: WorkloadRef | None,
        registry: OperatorRegistry,
    ) -> None:
        self.body = body
        self.ref = ref
        self.provenance = provenance
        self.workload = workload
        self.registry = registry
        self.is_crd = ref.group_kind == DEFINITION.group_kind
        self.out = Judged()

    def say(self, code: str, message: str, *path: str | int) -> None:
        if len(self.out.findings) >= MAX_FINDINGS:
            if len(self.out.findings) > MAX_FINDINGS:
                return
            code, message = TOO_MANY_FINDINGS, "further problems of the object are not listed"
        origin = self.provenance.origin_of(path)
        text = f"{self.ref.kind} {self.ref.name}: {message}"
        self.out.findings.append(finding(code, text, origin, object=self.ref, workload=self.workload, path=path))

    def run(self) -> Judged:
        self._marks("labels")
        self._marks("annotations")
        self._own_annotations()
        self._walk(self.body, (), "")
        self._by_kind()
        self._fields()
        self._name_limits()
        kind = self.ref.group_kind
        for code, message, path in (*manifest_problems(self.registry, kind, self.body), *dummies(self.body, kind)):
            self.say(code, message, *path)
        return self.out

    # -- labels and annotations ---------------------------------------------------------------------------------------

    def _marks(self, name: str) -> None:
        """Those that only we or an operator may write."""
        reserved = self.registry.reserved_prefixes()
        for key in sorted(self.body["metadata"].get(name, ())):
            if key.startswith(RESERVED_PREFIXES) and not (name == "annotations" and key in _ALLOWED):
                self.say(codes.OUR_METADATA, _not_for_git(name, key), "metadata", name, key)
            elif key.startswith(reserved):
                self.say(codes.OPERATOR_METADATA, f"{key} is written by its operator only", "metadata", name, key)

    def _own_annotations(self) -> None:
        annotations = self.body["metadata"].get("annotations")
        if not annotations:
            return
        ours = {key: value for key, value in annotations.items() if key in _ALLOWED and isinstance(value, str)}
        self.out.wishes = read_wishes(ours)
        for key, problem in self.out.wishes.problems:
            self.say(codes.BAD_ANNOTATION, f"{key}: {problem}", "metadata", "annotations", key)
        for key in _NOT_SENT:
            if isinstance(annotations.get(key), str):
                del annotations[key]
        if not annotations:
            del self.body["metadata"]["annotations"]

    # -- refused ------------------------------------------------------------------------------------------------------

    def _walk(self, value: Any, path: Path, key: str) -> None:
        """Nulls, credentials and numbers where Kubernetes wants text, in one pass over the object."""
        if isinstance(value, str):
            if len(value) > 11 and not self.out.wishes.allow_credential_like and (what := looks_like(value)):
                self.say(codes.CREDENTIAL, f"{dotted(path)} looks like {what}", *path)
        elif isinstance(value, dict):
            text_map = key in TEXT_MAPS and len(path) > 1 and path[-2] != "properties" and not self.is_crd
            for name, child in value.items():
                if isinstance(child, str | dict | list):
                    self._walk(child, (*path, name), name)
                elif child is None:
                    if not self.is_crd:
                        self.say(codes.NULL_VALUE, f"{dotted((*path, name))} is null", *path, name)
                elif text_map:
                    self._not_text(child, (*path, name))
                elif (wrong := file_mode_problem(name, child, value)) is not None:
                    self.say(codes.BAD_MODE, f"{dotted((*path, name))} {wrong}", *path, name)
        elif isinstance(value, list):
            for position, child in enumerate(value):
                here = (*path, position)
                if isinstance(child, str | dict | list):
                    self._walk(child, here, "")
                    if key == "env" and isinstance(child, dict) and isinstance(child.get("value"), int | float):
                        self._not_text(child["value"], (*here, "value"))
                elif child is None and not self.is_crd:
                    self.say(codes.NULL_VALUE, f"{dotted(here)} is null", *here)

    def _not_text(self, value: Any, path: Path) -> None:
        written = self.provenance.text_of(path) or ("true" if value is True else "false" if value is False else value)
        self.say(codes.NOT_TEXT, f'{dotted(path)} must be text: write "{written}"', *path)

    def _fields(self) -> None:
        for pattern in self.registry.text_fields(self.ref.group_kind):
            for path, value in values_at(self.body, pattern):
                if isinstance(value, int | float):
                    self._not_text(value, path)
        shape = self.registry.schemas.shape(GroupVersionKind.parse(self.body["apiVersion"], self.ref.kind))
        if shape is not None:
            for code, message, path in equal_items(self.body, shape):
                self.say(code, message, *path)

    def _by_kind(self) -> None:
        body, kind = self.body, self.ref.group_kind
        if kind == CONFIG_MAP.group_kind:
            data = body.get("data")
            for key, value in data.items() if isinstance(data, dict) else ():
                if isinstance(value, int | float):
                    self._not_text(value, ("data", key))
        elif kind == SECRET.group_kind:
            self._secret()
        elif kind.group == RBAC_GROUP:
            for code, message, path in problems_of(body, self.ref):
                self.say(code, message, *path)
        elif kind == NAMESPACE.group_kind:
            for key, problem in bad_labels(body["metadata"].get("labels", {})):
                self.say(codes.BAD_LEVEL, f"{key} {problem}", "metadata", "labels", key)

    def _secret(self) -> None:
        for key in ("data", "stringData"):
            if self.body.get(key):
                self.say(codes.SECRET_DATA, f"{key} must not be in Git", key)
            self.body.pop(key, None)
        if self.body.get("type") == "kubernetes.io/service-account-token":
            self.say(codes.TOKEN_SECRET, "a token that never expires", "type")

    def _name_limits(self) -> None:
        """For each name the tightest limit that it breaks."""
        told: set[Path] = set()
        for limit in sorted(self.registry.name_limits(self.ref.group_kind), key=lambda each: each.limit):
            for path, name in self._limited(limit):
                total = len(self.ref.name) + len(name)
                if total > limit.limit and path not in told:
                    told.add(path)
                    what = f"name and {name} have" if name else "the name has"
                    self.say(codes.NAME_TOO_LONG, f"{what} {total} characters, {limit.limit} are allowed", *path)

    def _limited(self, limit: NameLimit) -> list[tuple[Path, str]]:
        """What is added to the object's name to be limited."""
        if limit.unlessAnnotation:
            key, _, value = limit.unlessAnnotation.partition("=")
            if self.body["metadata"].get("annotations", {}).get(key) == value:
                return []
        if not limit.parts:
            return [(("metadata", "name"), "")]
        keys = limit.parts.endswith("*")  # of a map: the names are the keys themselves
        found = values_at(self.body, limit.parts)
        names = ((path, path[-1] if keys and isinstance(path[-1], str) else value) for path, value in found)
        return [(path, name) for path, name in names if isinstance(name, str)]


def _not_for_git(place: str, key: str) -> str:
    """Why a label or annotation of ours may not be set: with a guess where one that may be set is written wrongly."""
    if key in _ALLOWED:
        return f"{key} is an annotation, no label"
    near = difflib.get_close_matches(key[:64], sorted(_ALLOWED), n=1, cutoff=0.85)
    guess = f"; did you mean {near[0]}?" if near and place == "annotations" else ""
    return f"{key} may not be set in Git{guess}"
