"""The rules of a structural schema (x-kubernetes-validations) over an object, as an API server of 1.34 applies them.

Sources: k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel (validation.go, compilation.go); KEP-2876 (rules),
KEP-4008 (ratcheting); Kubernetes documentation, "Custom Resources", "Validation rules". Definitions in a repository are
hostile: rules are bounded in number, length and work.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.policy.cel.correlation import MISSING, Correlation, items_by_key
from gitops.policy.cel.expressions import (
    CompileProblem,
    EvaluationError,
    Expression,
    NotEvaluatedError,
    Size,
    activation,
)
from gitops.policy.cel.field_paths import parse_field_path
from gitops.policy.cel.structure import Schema, TimesOf, is_visible, malformation, values_schema
from gitops.policy.cel.syntax import SyntaxUnknownError, Tokens, Uses
from gitops.policy.cel.values import IllTypedError, convert, key_of
from gitops.policy.credentials import looks_like
from gitops.policy.verdicts import Problem

MOST_RULES = 2_000
"""Of one schema. The operators' largest has 50."""
MOST_PROBLEMS = 100
MOST_WORK = 1e9
"""Of all rules over one object, in the unit of Expression.work: seconds at the very worst."""
_LONGEST_MESSAGE = 5 << 10  # of a messageExpression, in bytes: Kubernetes has the same
_VARIABLES = ("self", "oldSelf")


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    message: str
    path: Path  # of what fails, below the value
    optional: bool
    transition: bool
    expression: Expression | CompileProblem
    message_expression: Expression | CompileProblem | None

    @property
    def said(self) -> str:
        return self.message or self.text


@dataclass(slots=True)
class Node:
    """Rules at one place of a schema and below it."""

    schema: Schema
    root: bool
    rules: tuple[Rule, ...] = ()
    uses: Uses = field(default_factory=Uses)  # fields that rules read when an object is new …
    uses_of_changes: Uses = field(default_factory=Uses)  # … and when it was there before
    fields: dict[str, Node] = field(default_factory=dict)
    values: Node | None = None
    items: Node | None = None


@dataclass(frozen=True, slots=True)
class RuleTree:
    """The compiled rules of one schema. Make it once: that costs milliseconds, and a check microseconds."""

    top: Node | None
    count: int
    unusable: str = ""  # why there is no tree

    @staticmethod
    def of(schema: Schema) -> RuleTree:
        """Of an openAPIV3Schema, however malformed."""
        if unusable := malformation(schema):
            return RuleTree(None, 0, unusable)
        builder = _Builder()
        top = builder.node(schema, root=True)
        too_many = f"more than {MOST_RULES} rules in one schema" if builder.count > MOST_RULES else ""
        return RuleTree(top, builder.count, too_many)

    def problems(self) -> Iterator[CompileProblem]:
        """Rules that cannot be checked."""
        nodes = [self.top]
        while nodes:
            node = nodes.pop()
            if node is not None:
                yield from (rule.expression for rule in node.rules if isinstance(rule.expression, CompileProblem))
                nodes += [*node.fields.values(), node.values, node.items]

    def check(self, new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> Iterator[Problem | str]:
        """What the rules refuse in `new`, over the live object `old` if there is one; a sentence for each doubt.

        Expects an object that the schema itself takes, with its defaults: a server looks at no rule before that.
        """
        if self.unusable:
            yield f"rules: {self.unusable}"
        elif self.top is not None:
            yield from _Check().run(self.top, dict(new), None if old is None else dict(old))


# -- compiling ---------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=4096)
def _compiled(text: str, optional: str) -> Expression | CompileProblem:
    return Expression.compile(text, _VARIABLES, optional=optional)


class _Builder:
    def __init__(self) -> None:
        self.count = 0
        self._times = TimesOf()

    def node(self, schema: Any, *, root: bool = False) -> Node | None:
        """None where no rule is. Rules inside allOf and the like do not exist: they would be "not structural"."""
        if not isinstance(schema, Mapping) or not is_visible(schema):
            return None
        node = Node(schema, root or bool(schema.get("x-kubernetes-embedded-resource")))
        node.rules = self._rules(node)
        for name, child in (schema.get("properties") or {}).items():
            if below := self.node(child):
                node.fields[name] = below
        node.values = self.node(values_schema(schema))
        node.items = self.node(schema.get("items"))
        return node if node.rules or node.fields or node.values or node.items else None

    def _rules(self, node: Node) -> tuple[Rule, ...]:
        rules = []
        for entry in node.schema.get("x-kubernetes-validations") or ():
            self.count += 1
            if self.count <= MOST_RULES and str(entry.get("rule") or "").strip():
                rules.append(self._rule(entry, node))
        return tuple(rules)

    def _rule(self, entry: Mapping[str, Any], node: Node) -> Rule:
        text, words = str(entry["rule"]), str(entry.get("messageExpression") or "")
        optional = bool(entry.get("optionalOldSelf"))
        transition = _note((text, words), node.uses_of_changes)
        if optional or not transition:
            _note((text, words), node.uses)
        return Rule(
            text=text.strip(),
            message=str(entry.get("message") or "").strip(),
            path=parse_field_path(str(entry.get("fieldPath") or ""), node.schema),
            optional=optional,
            transition=transition,
            expression=self._expression(text, node, optional),
            message_expression=self._expression(words, node, optional) if words else None,
        )

    def _expression(self, text: str, node: Node, optional: bool) -> Expression | CompileProblem:
        name = "oldSelf" if optional else ""
        if self._times.below(node.schema) == "plain":
            return _compiled(text, name)
        times = functools.partial(self._times.at, node.schema, root=node.root)
        return Expression.compile(text, _VARIABLES, optional=name, times=times)


def _note(texts: tuple[str, str], uses: Uses) -> bool:
    """Add the fields that a rule and its message read; whether the rule mentions oldSelf."""
    try:
        tokens = [Tokens(text) for text in texts]
    except SyntaxUnknownError:
        return False  # does not compile either
    for part in tokens:
        part.note_uses(frozenset(_VARIABLES), uses)
    return tokens[0].mentions("oldSelf")


# -- checking ----------------------------------------------------------------------------------------------------------


class _Check:
    """One pass over one object."""

    def __init__(self) -> None:
        self._work = 0.0

    def run(self, top: Node, new: Any, old: Any) -> Iterator[Problem | str]:
        problems = 0
        before = Correlation() if old is None else Correlation((new, old, top.schema))
        for found in self._node(top, (), new, old, before):
            yield found
            problems += isinstance(found, Problem)
            if problems >= MOST_PROBLEMS:
                return
            if self._work > MOST_WORK:
                yield "the rules that are left: they could take long with so large an object"
                return

    def _node(self, node: Node, path: Path, new: Any, old: Any, before: Correlation) -> Iterator[Problem | str]:
        """`old` is what rules about changes compare with, `before` decides what is tolerated."""
        if new is None or self._work > MOST_WORK:
            return
        if node.rules:
            yield from self._rules(node, path, new, old, before)
        if isinstance(new, list) and node.items is not None:
            others = items_by_key(old, node.schema)
            for at, item in enumerate(new):
                other = others.get(key_of(item, node.schema)) if others else None
                yield from self._node(node.items, (*path, at), item, other, before.item(at))
        elif isinstance(new, dict):
            names = new if node.values is not None else [name for name in node.fields if name in new]
            for name in names:
                child = node.fields.get(name) or node.values
                other = old.get(name) if isinstance(old, dict) else None
                if child is not None:
                    yield from self._node(child, (*path, name), new[name], other, before.field(name))

    def _rules(self, node: Node, path: Path, new: Any, old: Any, before: Correlation) -> Iterator[Problem | str]:
        rules = [rule for rule in node.rules if old is not None or not rule.transition or rule.optional]
        values = _Values(node, new, old)
        for rule in rules:
            if isinstance(rule.expression, CompileProblem):
                yield f"{_name(rule, path)}: {rule.expression.reason}"
                continue
            try:
                holds = self._evaluate(rule.expression, rule, values)
            except (NotEvaluatedError, IllTypedError) as error:
                yield f"{_name(rule, path)}: {_why(error)}"
            except EvaluationError as error:
                yield Problem(path, _failure(error, rule), rule.text)
            else:
                if holds is not True and (rule.transition or not before.tolerates()):
                    yield Problem((*path, *rule.path), self._message(rule, values), rule.text)

    def _evaluate(self, expression: Expression, rule: Rule, values: _Values) -> Any:
        given, size = values.given(optional=rule.optional)
        self._work += expression.work.bound(size.items, size.longest)
        return expression.run(given, size)

    def _message(self, rule: Rule, values: _Values) -> str:
        """The words of messageExpression if they are fit to print, else those of the rule. It may repeat any value: one
        with a credential is not."""
        if isinstance(rule.message_expression, Expression):
            try:
                words = self._evaluate(rule.message_expression, rule, values)
            except (EvaluationError, IllTypedError):
                words = ""
            words = words.strip() if isinstance(words, str) else ""
            fits = words and "\n" not in words and len(words.encode()) <= _LONGEST_MESSAGE
            if fits and looks_like(words) is None:
                return str(words)
        return rule.message or f"failed rule: {rule.text}"


class _Values:
    """`self` and `oldSelf` for the rules of one node, converted when the first of them asks."""

    def __init__(self, node: Node, new: Any, old: Any) -> None:
        self._node, self._new, self._old = node, new, old
        self._made: dict[bool, tuple[Any, Size]] = {}
        self._self: Any = MISSING

    def given(self, *, optional: bool) -> tuple[Any, Size]:
        """Raises IllTypedError and NotEvaluatedError for values that cannot be given to the engine."""
        if optional not in self._made:
            node = self._node
            uses = node.uses if self._old is None else node.uses_of_changes
            if self._self is MISSING:
                self._self = convert(self._new, node.schema, uses, root=node.root)
            data = {"self": self._self}
            if self._old is not None:
                old = convert(self._old, node.schema, uses, root=node.root, like=self._new)
                data["oldSelf"] = [old] if optional else old
            elif optional:
                data["oldSelf"] = []
            self._made[optional] = activation(_VARIABLES, data)
        return self._made[optional]


def _name(rule: Rule, path: Path) -> str:
    return f"rule {rule.text[:80]!r} at {dotted(path) or 'the root'}"


def _why(error: Exception) -> str:
    return "a value has not the type of its schema" if isinstance(error, IllTypedError) else str(error)


def _failure(error: EvaluationError, rule: Rule) -> str:
    """In the words of an API server."""
    if str(error) == "no such overload":
        return (
            "'no such overload': call arguments did not match a supported operator, function or macro signature for "
            f"rule: {rule.said}"
        )
    return f"{error} evaluating rule: {rule.said}"
