"""StatusMapping documents compiled for use: which one is for which kind, rules as plain tuples, CEL compiled once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import Any

from pydantic import ValidationError

from gitops.manifests.reading import read_documents
from gitops.model.identity import GroupVersionKind
from gitops.model.status_mappings import StatusMapping, StatusMappingSpec, StatusRule
from gitops.policy import registry
from gitops.readiness.expressions import ExpressionError, Tree, compile_expression, fields_used
from gitops.readiness.statuses import Flag, Status

_PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


class MappingError(ValueError):
    """A StatusMapping that cannot be used; the text names the mapping and the rule."""


@dataclass(frozen=True, slots=True)
class CompiledCondition:
    """`wanted`: the status text, "!" for notTrue, "-" for absent, "" for any."""

    type: str
    wanted: str
    reasons: frozenset[str]
    other_reasons: frozenset[str]

    def matches(self, conditions: Mapping[str, Mapping[str, Any]]) -> bool:
        found = conditions.get(self.type)
        if found is None:
            return self.wanted in ("!", "-")
        if self.wanted == "-" or (self.wanted == "!" and found.get("status") == "True"):
            return False
        if self.wanted not in ("", "!") and found.get("status") != self.wanted:
            return False
        reason = found.get("reason", "")
        return not (self.reasons and reason not in self.reasons) and reason not in self.other_reasons


Template = tuple[str | tuple[str, ...], ...]
"""Literals (str) and paths (tuple) of one message template, in order."""


@dataclass(frozen=True, slots=True)
class CompiledRule:
    status: Status
    phases: frozenset[str] | None
    conditions: tuple[CompiledCondition, ...]
    expr: Any
    settled: str | None
    fresh: str
    hold: float
    stop: bool
    flags: frozenset[Flag]
    reason: str
    messages: tuple[Template, ...]
    message_expr: Any


@dataclass(frozen=True, slots=True)
class CompiledDeadline:
    after: float
    expr: Any
    status: Status
    reason: str


@dataclass(frozen=True, slots=True)
class CompiledMapping:
    """One StatusMapping ready for evaluate(). `uses` are the fields its expressions read."""

    name: str
    spec: StatusMappingSpec
    phase_path: tuple[str, ...]
    conditions_path: tuple[str, ...]
    rules: tuple[CompiledRule, ...]
    deadlines: tuple[CompiledDeadline, ...]
    otherwise_messages: tuple[Template, ...]
    uses: Tree = field(repr=False)

    @property
    def counted(self) -> bool:
        """Whether objects of this kind are part of `ready 3/4`."""
        return self.spec.counted


def compile_mapping(document: StatusMapping) -> CompiledMapping:
    """Raises MappingError when an expression or template cannot be compiled."""
    spec, name = document.spec, document.metadata.name
    try:
        rules = tuple(_compile_rule(rule, f"{name}, rule {number}") for number, rule in enumerate(spec.rules, 1))
        deadlines = tuple(
            CompiledDeadline(d.after, compile_expression(d.expr) if d.expr else None, Status(d.status), d.reason)
            for d in spec.deadlines
        )
    except ExpressionError as error:
        raise MappingError(f"{name}: {error}") from error
    texts = [t for r in spec.rules for t in (r.expr, r.messageExpr) if t] + [d.expr for d in spec.deadlines if d.expr]
    return CompiledMapping(
        name=name,
        spec=spec,
        phase_path=tuple(spec.phase.split(".")) if spec.phase else (),
        conditions_path=tuple(spec.conditions.split(".")),
        rules=rules,
        deadlines=deadlines,
        otherwise_messages=tuple(_template(text, name) for text in spec.otherwise.message),
        uses=fields_used(texts),
    )


def _compile_rule(rule: StatusRule, where: str) -> CompiledRule:
    try:
        expr = compile_expression(rule.expr) if rule.expr else None
        message_expr = compile_expression(rule.messageExpr) if rule.messageExpr else None
    except ExpressionError as error:
        raise MappingError(f"{where}: {error}") from error
    if not (rule.phase or rule.conditions or rule.expr):
        raise MappingError(f"{where}: a rule needs phase, conditions or expr (one without any would match everything)")
    return CompiledRule(
        status=Status(rule.status),
        phases=frozenset(rule.phase.in_) if rule.phase else None,
        conditions=tuple(
            CompiledCondition(
                type=c.type,
                wanted="-" if c.absent else "!" if c.notTrue else (c.status or ""),
                reasons=frozenset(c.reason.in_ if c.reason else ()),
                other_reasons=frozenset(c.reason.notIn if c.reason else ()),
            )
            for c in rule.conditions
        ),
        expr=expr,
        settled=rule.settled,
        fresh=rule.fresh,
        hold=rule.hold,
        stop=rule.stop,
        flags=frozenset(Flag(f) for f in rule.flags),
        reason=rule.reason or "",
        messages=tuple(_template(text, where) for text in rule.message),
        message_expr=message_expr,
    )


def _template(text: str, where: str) -> Template:
    parts: list[str | tuple[str, ...]] = []
    end = 0
    for match in _PLACEHOLDER.finditer(text):
        if match.start() > end:
            parts.append(text[end : match.start()])
        path = tuple(match.group(1).split("."))
        if path[0] not in ("phase", "conditions", "self") or (path[0] == "conditions" and len(path) != 3):
            raise MappingError(f"{where}: {{{match.group(1)}}} is not phase, conditions.<type>.<field> or self.<path>")
        parts.append(path)
        end = match.end()
    if end < len(text):
        parts.append(text[end:])
    return tuple(parts)


class Mappings:
    """All known mappings. Later documents win over earlier ones; an exact version wins over any version."""

    def __init__(self, documents: Iterable[StatusMapping]) -> None:
        self._exact: dict[GroupVersionKind, CompiledMapping] = {}
        self._any: dict[tuple[str, str], CompiledMapping] = {}
        for document in documents:
            compiled = compile_mapping(document)
            for match in document.spec.match:
                if match.versions:
                    for version in match.versions:
                        self._exact[GroupVersionKind(match.group, version, match.kind)] = compiled
                else:
                    self._any[match.group, match.kind] = compiled
        if ("*", "*") not in self._any:
            raise MappingError('no mapping with group "*" and kind "*" for unknown kinds')
        self._generic = self._any["*", "*"]

    @classmethod
    def read(cls, folder: Traversable) -> Mappings:
        """The *.yaml files of a folder in order of name. Trusted data: raises MappingError for a bad file."""
        return cls(document for file in sorted(folder.iterdir(), key=lambda f: f.name) for document in _documents(file))

    @classmethod
    def shipped(cls) -> Mappings:
        """The mappings that ship with this version: policies/status of the wheel or of the checkout."""
        return cls.read(registry.shipped_folder("policies") / "status")

    def __iter__(self) -> Iterator[CompiledMapping]:
        """Each mapping once, in order of name."""
        known = {id(m): m for m in (*self._exact.values(), *self._any.values())}
        return iter(sorted(known.values(), key=lambda m: m.name))

    def for_kind(self, gvk: GroupVersionKind) -> CompiledMapping:
        """The mapping for a kind; the generic one when none names it."""
        return self._exact.get(gvk) or self._any.get((gvk.group, gvk.kind)) or self._generic

    def for_object(self, obj: Mapping[str, Any]) -> CompiledMapping:
        return self.for_kind(GroupVersionKind.parse(str(obj.get("apiVersion", "")), str(obj.get("kind", ""))))

    def known(self, gvk: GroupVersionKind) -> bool:
        """True when a mapping names this kind (at this version or any)."""
        return gvk in self._exact or (gvk.group, gvk.kind) in self._any


def _documents(file: Traversable) -> list[StatusMapping]:
    if not file.name.endswith(".yaml"):
        return []
    result = read_documents(file.read_bytes(), file=file.name)
    if result.findings:
        raise MappingError("; ".join(map(str, result.findings)))
    try:
        return [StatusMapping.model_validate(document.body) for document in result.documents]
    except ValidationError as error:
        raise MappingError(f"{file.name}: {error}") from error
