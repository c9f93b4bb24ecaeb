"""The verdict on one object: the API server's checks of a server-side apply, in its order.

Types first (a failure there ends it), then defaults, metadata, the schema's values, embedded objects, numbers of
replicas, and the rules in CEL when nothing else is wrong. Kinds of Kubernetes itself have types only; what Go code
checks beyond them is in gitops/policy/schemas/native.py for the kinds where it is known in full.

Read in: apiserver's handlers/patch.go and registry/rest, apiextensions-apiserver's registry/customresource.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gitops.manifests.lines import Path, dotted
from gitops.model.identity import GroupVersionKind
from gitops.policy.cel.rules import RuleTree
from gitops.policy.schemas.answers import MOST_PROBLEMS, Tolerates, answers
from gitops.policy.schemas.conversion import Converted, converted
from gitops.policy.schemas.defaults import fill_defaults
from gitops.policy.schemas.kind_schema import Header, decoded
from gitops.policy.schemas.merging import outcomes
from gitops.policy.schemas.metadata import OBJECT_META, embedded_problems, metadata_problems, with_metadata
from gitops.policy.schemas.native import common_problems, complete, undecided
from gitops.policy.schemas.reading import Schema, UnusableSchema
from gitops.policy.schemas.typed import TYPES, Types, json_type
from gitops.policy.schemas.updates import tolerance
from gitops.policy.verdicts import SOUND, Judgement, Problem

DEEPEST = 150
"""Levels of an object; Kubernetes' own kinds have about twenty."""
_MOST_OF_ERRORS = 128 << 20
"""Characters of all errors of an object. The largest graphs come to some 5 million."""
_MOST_REPLICAS = 2**31 - 1
_USUAL_SCALE = {"spec": ".spec.replicas", "status": ".status.replicas"}


@dataclass(frozen=True, slots=True)
class Compiled:
    schema: Schema
    types: Types
    typed: Schema
    """The schema with what every object has: apiVersion, kind and the types of metadata."""
    values: Converted | None
    has_defaults: bool
    has_embedded: bool
    rules: RuleTree | None


@functools.lru_cache(maxsize=64)
def compiled(content: bytes, builtin: bool) -> Compiled:
    """A kind's schema ready to judge; the latest 64 are kept. Raises UnusableSchema."""
    schema, definitions = decoded(content)
    if builtin:
        return Compiled(schema, Types(definitions, native=True), schema, None, False, False, None)
    if definitions:
        schema = _inlined(schema, definitions)
    types = Types({**definitions, "ObjectMeta": OBJECT_META})
    words = set(_words(schema))
    rules = RuleTree.of(schema) if "x-kubernetes-validations" in words else None
    has_embedded = "x-kubernetes-embedded-resource" in words
    return Compiled(schema, types, with_metadata(schema), converted(schema), "default" in words, has_embedded, rules)


def _words(schema: Schema) -> Iterator[str]:
    waiting = [schema]
    while waiting:
        part = waiting.pop()
        yield from part
        waiting.extend(part.get("properties", {}).values())
        waiting.extend(
            child for word in ("items", "additionalProperties", "not") if isinstance(child := part.get(word), dict)
        )
        waiting.extend(child for word in ("allOf", "anyOf", "oneOf") for child in part.get(word, ()))


def judge(
    gvk: GroupVersionKind,
    content: bytes,
    header: Header,
    body: Mapping[str, Any],
    old: Mapping[str, Any] | None,
    *,
    declared: bool = False,
) -> Judgement:
    try:
        kind = compiled(content, header.builtin)
    except UnusableSchema as error:
        return Judgement(unchecked=(f"the schema of {gvk} cannot be used: {error}",))
    try:
        copy = _copied(body, 0)
        live = None if old is None else _copied(old, 0)
    except _Unjudged as error:
        return Judgement(unchecked=(str(error),))
    problems = tuple(itertools.islice(_payload_problems(gvk, kind, copy), MOST_PROBLEMS))
    if problems:
        return Judgement(problems)
    results = _native(gvk) if header.builtin else _custom(kind, header)
    found = Judgement(*results(copy, None)) if live is None else _over(results, copy, live, kind, declared)
    unchecked = (*_compared(copy, live), *found.unchecked)
    return Judgement(found.problems, unchecked) if found.problems or unchecked else SOUND


Results = tuple[tuple[Problem, ...], tuple[str, ...]]
"""Problems, and sentences on what was not checked."""
Check = Callable[[dict[str, Any], dict[str, Any] | None], Results]
"""Of an object as it will be, and of the live one."""


def _over(check: Check, body: dict[str, Any], live: dict[str, Any], kind: Compiled, declared: bool) -> Judgement:
    futures = outcomes(live, body, kind.typed, kind.types, declared=declared)
    results = [check(future, live) for future in futures]
    problems = tuple(problem for problem in results[-1][0] if all(problem in found for found, _ in results))
    unchecked = tuple(dict.fromkeys(sentence for _, sentences in results for sentence in sentences))
    if not problems and any(found for found, _ in results):
        unchecked += ("what the live object becomes depends on who owns the fields that the manifest does not have",)
    return Judgement(problems, unchecked)


def _compared(body: Mapping[str, Any], old: Mapping[str, Any] | None) -> Iterator[str]:
    """Fields that refuse the object unless the live one has the same; the live one may be another by now."""
    for field in ("uid", "resourceVersion"):
        if sent := body["metadata"].get(field):
            live = (old or {}).get("metadata") or {}
            if sent != live.get(field):
                yield f"metadata.{field} has to be that of the live object"


# -- what is sent ------------------------------------------------------------------------------------------------------


class _Unjudged(ValueError):
    """No API server would get the object as it is; the text says why."""


def _copied(value: Any, depth: int) -> Any:
    """As the server reads it, by way of YAML: 1.0 is an integer there, and one beyond 64 bits is a float."""
    if depth > DEEPEST:
        raise _Unjudged(f"the object has more than {DEEPEST} levels")
    if isinstance(value, dict):
        return {_text(key): _copied(child, depth + 1) for key, child in value.items()}
    if isinstance(value, list | tuple):
        return [_copied(child, depth + 1) for child in value]
    if isinstance(value, str):
        return _text(value)
    if type(value) is float and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if type(value) is int and not -(2**63) <= value < 2**63 and abs(value) < 10**308:
        # Away from zero: the float of the first integer that is too small equals the last that is not.
        return math.nextafter(value, math.copysign(math.inf, value))
    if value is None or type(value) is bool or (type(value) in (int, float) and abs(value) < 10**308):
        return value
    raise _Unjudged("the object holds what JSON cannot carry")


def _text(value: Any) -> str:
    try:
        if isinstance(value, str) and (value.isascii() or value.encode()):
            return value
    except UnicodeEncodeError:
        pass
    raise _Unjudged("the object holds what JSON cannot carry")


def _payload_problems(gvk: GroupVersionKind, kind: Compiled, body: dict[str, Any]) -> Iterator[Problem]:
    for field, expected in (("apiVersion", gvk.api_version), ("kind", gvk.kind)):
        if body.get(field) != expected:
            yield Problem((field,), f"must be {expected}", TYPES)
    yield from kind.types.problems(kind.typed, body, ())
    metadata = body.get("metadata")
    if not isinstance(metadata, dict):
        yield Problem(("metadata", "name"), "Required value: name is required", "metadata")
    elif metadata.get("managedFields") is not None:
        yield Problem(("metadata", "managedFields"), "metadata.managedFields must be nil", "metadata")


# -- custom kinds ------------------------------------------------------------------------------------------------------


def _custom(kind: Compiled, header: Header) -> Check:
    return lambda new, live: _results(kind, header, new, live)


def _native(gvk: GroupVersionKind) -> Check:
    whole = complete(gvk)

    def check(new: dict[str, Any], live: dict[str, Any] | None) -> Results:
        problems = list(common_problems(gvk, new, live))
        if whole is None:
            return tuple(problems), ("the API server checks more of its own kinds than their schemas say",)
        problems += whole(new, live)
        return tuple(problems), tuple(undecided(new)) if live is None else ()

    return check


def _results(kind: Compiled, header: Header, new: dict[str, Any], live: dict[str, Any] | None) -> Results:
    new = _copied(new, 0)
    if kind.has_defaults:
        fill_defaults(new, kind.schema)
        if live is not None:
            live = _copied(live, 0)
            fill_defaults(live, kind.schema)
    if "status" in header.subresources:
        new.pop("status", None)
        if live is not None and "status" in live:
            new["status"] = live["status"]
    assert kind.values is not None
    problems: list[Problem] = []
    unchecked: list[str] = list(kind.values.unchecked)
    tolerates = None if live is None else tolerance(kind.schema, new, live, kind.types)
    _sort(_values(kind.values, new, tolerates), problems, unchecked)
    problems += metadata_problems(new.get("metadata") or {}, live=None if live is None else live.get("metadata") or {})
    if kind.has_embedded:
        problems += embedded_problems(kind.schema, new)
    _sort(_replicas(header, new), problems, unchecked)
    if kind.rules is not None and not problems:
        _sort(kind.rules.check(new, live), problems, unchecked)
    return tuple(problems), tuple(dict.fromkeys(unchecked))


def _values(values: Converted, new: dict[str, Any], tolerates: Tolerates | None) -> Iterator[Problem | str]:
    """The library makes all errors at once: where they could fill the memory, it is asked for a yes or no only."""
    if _places(new) * values.heaviest <= _MOST_OF_ERRORS:
        yield from answers(values.validator.iter_errors(new), values.patterns, tolerates)
    elif not values.validator.is_valid(new):
        yield "the object does not fit its schema, and is too large to say where"


def _places(value: Any) -> int:
    count, waiting = 0, [value]
    while waiting:
        part = waiting.pop()
        count += 1
        if isinstance(part, dict):
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)
    return count


def _sort(found: Iterable[Problem | str], problems: list[Problem], unchecked: list[str]) -> None:
    for said in found:
        if isinstance(said, Problem):
            problems.append(said)
        else:
            unchecked.append(said)


def _replicas(header: Header, body: dict[str, Any]) -> Iterator[Problem | str]:
    """Numbers that a scale subresource shows have to be such (apiextensions-apiserver, ValidateScaleSpec). An OpenAPI
    document tells that there is one and not where its numbers are: a doubt then, where they usually are."""
    known = header.scale or (_USUAL_SCALE if "scale" in header.subresources else {})
    for where in known.values():
        if problem := _no_number(tuple(where.removeprefix(".").split(".")), body):
            yield (
                problem
                if header.scale
                else f"{dotted(problem.path)} {problem.message} if the scale subresource shows it"
            )


def _no_number(path: Path, body: dict[str, Any]) -> Problem | None:
    value: Any = body
    for at, segment in enumerate(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            return Problem(path[:at], f"holds no field {segment}, but is of type {json_type(value)}", "scale")
        if segment not in value:
            return None
        value = value[segment]
    if type(value) is not int:
        return Problem(path, f"must be an integer, not {json_type(value)}", "scale")
    if not 0 <= value <= _MOST_REPLICAS:
        return Problem(path, f"should be between 0 and {_MOST_REPLICAS}", "scale")
    return None


# -- references --------------------------------------------------------------------------------------------------------


def _inlined(schema: Schema, definitions: Mapping[str, Schema], depth: int = 0) -> Schema:
    """The schema of a custom kind out of an OpenAPI document, where only metadata is named elsewhere."""
    if depth > 100:
        raise UnusableSchema("it refers to itself")
    resolved, name = Types(definitions).resolved(schema)
    if name is not None and name.endswith(".ObjectMeta"):
        return {}  # the server puts it there, also where the definition says nothing of metadata
    made = dict(resolved)
    if "properties" in made:
        made["properties"] = {n: _inlined(child, definitions, depth + 1) for n, child in made["properties"].items()}
    for word in ("items", "additionalProperties"):
        if isinstance(child := made.get(word), dict):
            made[word] = _inlined(child, definitions, depth + 1)
    return made
