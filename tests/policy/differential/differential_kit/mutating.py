"""Small changes to objects, chosen by seed: most make an object that the API server refuses, many one that it takes.

An operator gets the places of an object with their schemas and gives edits; one or two of them make a mutation. What it
knows of the schema only steers it to where rules are: whether the result is good is for the API server to say.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from differential_kit.generating import QUANTITIES, generate
from differential_kit.odd_values import BAD_QUANTITIES, JSON, KEYS, METADATA, NUMBERS, OTHER_TYPES, TEXTS
from differential_kit.walking import DROP, OPAQUE, Node, Path, Schema, child_schema, edited, nodes

Body = dict[str, Any]
Edit = tuple[Path, Any]
Operator = Callable[[Sequence[Node], Random], Edit | None]


def pick(rng: Random, places: Sequence[Node]) -> Node | None:
    """A place, each depth as likely as another: a pod template would else get nearly all."""
    if not places:
        return None
    if rng.random() < 0.3:
        return rng.choice(places)
    depth = rng.choice(sorted({len(place.path) for place in places}))
    return rng.choice([place for place in places if len(place.path) == depth])


def _inner(places: Sequence[Node]) -> list[Node]:
    """Without the root, what names the object, and its metadata."""
    return [p for p in places if p.path and p.path[0] not in {"apiVersion", "kind", "metadata"}]


def _objects(places: Sequence[Node]) -> list[Node]:
    return [p for p in places if isinstance(p.value, dict) and "properties" in p.schema and p.path[:1] != ("metadata",)]


def drop(places: Sequence[Node], rng: Random) -> Edit | None:
    """Any field or item away."""
    place = pick(rng, _inner(places))
    return place and (place.path, DROP)


def drop_required(places: Sequence[Node], rng: Random) -> Edit | None:
    """A field that the schema requires away."""
    found = [
        Node((*p.path, name), p.schema, None)
        for p in _objects(places)
        for name in p.schema.get("required", ())
        if name in p.value
    ]
    place = pick(rng, found)
    return place and (place.path, DROP)


def other_type(places: Sequence[Node], rng: Random) -> Edit | None:
    """A value of another type, where possible one that says the same."""
    place = pick(rng, _inner(places))
    if place is None:
        return None
    same = {str: str(place.value), int: str(place.value), bool: str(place.value).lower()}
    value = rng.choice(OTHER_TYPES[type(place.value)])
    if rng.random() < 0.2 and not isinstance(place.value, list | dict):
        value = same.get(type(place.value), value)
    if isinstance(place.value, int) and rng.random() < 0.3:
        value = float(place.value)
    return place.path, value


def unknown_field(places: Sequence[Node], rng: Random) -> Edit | None:
    """A field that the schema does not know, often nearly one that it does."""
    place = pick(rng, _objects(places))
    if place is None:
        return None
    name = rng.choice([*place.schema["properties"], "unknownField"])
    near = rng.choice((name + "s", name[:-1], name.capitalize(), name.lower(), name.upper(), f"{name}Spec", f" {name}"))
    return (*place.path, near), copy.deepcopy(place.value.get(name, rng.choice(["x", 1, {}, []])))


def duplicate_item(places: Sequence[Node], rng: Random) -> Edit | None:
    """An item of a list twice, at times with something else changed."""
    place = pick(rng, [p for p in places if isinstance(p.value, list) and p.value])
    if place is None:
        return None
    twin = copy.deepcopy(rng.choice(place.value))
    if isinstance(twin, dict) and twin and rng.random() < 0.5:
        key = rng.choice(list(twin))
        if key not in place.schema.get("x-kubernetes-list-map-keys", ()):
            del twin[key]
    return place.path, [*copy.deepcopy(place.value), twin]


def drop_list_key(places: Sequence[Node], rng: Random) -> Edit | None:
    """The key of a list's item away, or empty, or null."""
    found = [
        Node((*p.path, position, key), p.schema, None)
        for p in places
        if isinstance(p.value, list)
        for key in p.schema.get("x-kubernetes-list-map-keys", ())
        for position, item in enumerate(p.value)
        if isinstance(item, dict) and key in item
    ]
    place = pick(rng, found)
    return place and (place.path, rng.choice([DROP, DROP, "", None, 1]))


def bad_enum(places: Sequence[Node], rng: Random) -> Edit | None:
    """Not one of the values, or nearly."""
    place = pick(rng, [p for p in places if "enum" in p.schema])
    if place is None:
        return None
    known = rng.choice(place.schema["enum"])
    if not isinstance(known, str):
        return place.path, rng.choice([*NUMBERS, None, "1", True])
    near = (known.lower(), known.upper(), f"{known} ", known[:-1], "", "other", None, 1, known) if known else ("other",)
    return place.path, rng.choice(near)


def bad_text(places: Sequence[Node], rng: Random) -> Edit | None:
    """A text that patterns, formats and lengths may mind."""
    texts = [p for p in _inner(places) if isinstance(p.value, str)]
    minded = [p for p in texts if {"pattern", "format", "maxLength", "minLength"} & set(p.schema)]
    place = pick(rng, minded if minded and rng.random() < 0.7 else texts)
    return place and (place.path, rng.choice(TEXTS))


def bad_number(places: Sequence[Node], rng: Random) -> Edit | None:
    """A number at or beyond a limit of the schema or of the type."""
    place = pick(rng, [p for p in _inner(places) if isinstance(p.value, int | float) and not isinstance(p.value, bool)])
    if place is None:
        return None
    limits = [place.schema[word] + by for word in ("minimum", "maximum") if word in place.schema for by in (-1, 0, 1)]
    return place.path, rng.choice([*limits, *limits, *NUMBERS])


def bad_size(places: Sequence[Node], rng: Random) -> Edit | None:
    """As long as allowed, or by one too long or too short."""
    words = {"maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"}
    place = pick(rng, [p for p in places if words & set(p.schema)])
    if place is None:
        return None
    size = max(0, place.schema[rng.choice(sorted(words & set(place.schema)))] + rng.choice((-1, 0, 1)))
    if isinstance(place.value, str):
        return place.path, rng.choice(("a", "é", "😀")) * size
    if isinstance(place.value, list):
        sample = place.value[0] if place.value else generate(place.schema.get("items", OPAQUE), rng)
        return place.path, [_renamed(sample, number) for number in range(min(size, 200))]
    return place.path, {f"k{number}": "v" for number in range(min(size, 200))}


def _renamed(item: Any, number: int) -> Any:
    if isinstance(item, dict) and "name" in item:
        return {**copy.deepcopy(item), "name": f"n{number}"}
    return f"{item}{number}" if isinstance(item, str) else copy.deepcopy(item)


def null(places: Sequence[Node], rng: Random) -> Edit | None:
    """null for a value, or as one more item or member."""
    place = pick(rng, _inner(places))
    if place is None:
        return None
    if isinstance(place.value, list) and rng.random() < 0.5:
        return place.path, [*copy.deepcopy(place.value), None]
    if isinstance(place.value, dict) and place.schema.get("properties") and rng.random() < 0.5:
        return (*place.path, rng.choice(list(place.schema["properties"]))), None
    return place.path, None


def empty(places: Sequence[Node], rng: Random) -> Edit | None:
    """The empty value of the type."""
    place = pick(rng, [p for p in _inner(places) if p.value])
    return place and (place.path, type(place.value)())


def bad_quantity(places: Sequence[Node], rng: Random) -> Edit | None:
    """A quantity or an int-or-string, good or bad."""
    place = pick(rng, [p for p in places if p.schema.get("x-kubernetes-int-or-string")])
    return place and (place.path, rng.choice([*QUANTITIES, *BAD_QUANTITIES, *NUMBERS]))


def odd_key(places: Sequence[Node], rng: Random) -> Edit | None:
    """A free map with an odd key, or a value of another type."""
    place = pick(rng, [p for p in _inner(places) if isinstance(p.value, dict) and "additionalProperties" in p.schema])
    if place is None:
        return None
    below = child_schema(place.schema, "")
    value = generate(below or OPAQUE, rng) if rng.random() < 0.7 else rng.choice(JSON)
    return (*place.path, rng.choice(KEYS)), value


def anything(places: Sequence[Node], rng: Random) -> Edit | None:
    """Any JSON where anything may be."""
    place = pick(rng, [p for p in places if p.path and p.schema.get("x-kubernetes-preserve-unknown-fields")])
    if place is None:
        return None
    if isinstance(place.value, dict) and rng.random() < 0.5:
        return (*place.path, rng.choice(KEYS)), rng.choice(JSON)
    return place.path, rng.choice(JSON)


def embedded(places: Sequence[Node], rng: Random) -> Edit | None:
    """An embedded object without a kind, or with odd metadata."""
    place = pick(rng, [p for p in places if p.schema.get("x-kubernetes-embedded-resource")])
    if place is None or not isinstance(place.value, dict):
        return None
    name = rng.choice(("apiVersion", "kind", "metadata"))
    if name == "metadata":
        return (*place.path, name), rng.choice(
            [{"name": "UPPER"}, {"labels": {"a": 1}}, {"unknown": 1}, {"name": "a", "namespace": "B_"}, 1, {}, None,
             {"annotations": {"a b": "x"}}, {"labels": {"a/b/c": "x"}}, {"finalizers": ["x"]}, {"generateName": "a"}]
        )  # fmt: skip
    return (*place.path, name), rng.choice([DROP, "", None, 1, "a/b/c", "v1 ", "lower", "Pod"])


def add_optional(places: Sequence[Node], rng: Random) -> Edit | None:
    """A member that the schema knows and the object lacks."""
    place = pick(rng, [p for p in _objects(places) if set(p.schema["properties"]) - set(p.value)])
    if place is None:
        return None
    names = [n for n in place.schema["properties"] if n not in place.value and (place.path or n not in _TOP)]
    if not names:
        return None
    name = rng.choice(names)
    return (*place.path, name), generate(place.schema["properties"][name], rng, fill=rng.choice((0.1, 0.4, 0.9)))


_TOP = ("status", "metadata", "apiVersion", "kind")


def regenerate(places: Sequence[Node], rng: Random) -> Edit | None:
    """Another value that the schema takes."""
    place = pick(rng, [p for p in _inner(places) if p.path != ("spec",)])
    return place and (place.path, generate(place.schema, rng, fill=rng.choice((0.1, 0.4, 0.9))))


def reorder(places: Sequence[Node], rng: Random) -> Edit | None:
    """A list the other way round."""
    place = pick(rng, [p for p in _inner(places) if isinstance(p.value, list) and len(p.value) > 1])
    return place and (place.path, copy.deepcopy(place.value[::-1]))


def status(places: Sequence[Node], rng: Random) -> Edit | None:
    """A status, which the server drops after it was typed."""
    schema = places[0].schema.get("properties", {}).get("status")
    if schema is None:
        return None
    return ("status",), rng.choice([{}, {"unknown": 1}, 1, generate(schema, rng)])


def metadata(places: Sequence[Node], rng: Random) -> Edit | None:
    """Names, labels, annotations and the rest of what every object has."""
    path, values = rng.choice(METADATA)
    if not all(isinstance(places[0].value["metadata"].get(step, {}), dict) for step in path[:1]):
        return None
    value = rng.choice(values)
    if len(path) == 1:
        return ("metadata", *path), value
    old = places[0].value["metadata"].get(path[0], {})
    return ("metadata", path[0]), {**old, path[1]: value} if path[1] != "" else {**old, **value}


def rule_fields(places: Sequence[Node], rng: Random) -> Edit | None:
    """One of the fields that a CEL rule mentions, present, absent or changed."""
    ruled = [p for p in places if "x-kubernetes-validations" in p.schema and isinstance(p.value, dict | list)]
    place = pick(rng, ruled)
    if place is None:
        return None
    rule = rng.choice(place.schema["x-kubernetes-validations"])["rule"]
    mentioned = sorted({tuple(match.split(".")[1:]) for match in _MENTION.findall(rule)})
    if not mentioned or not place.path or isinstance(place.value, list):
        return add_optional(_below(places, place.path), rng)
    return _set_mentioned(place, rng.choice(mentioned), rng)


_MENTION = re.compile(r"\bself(?:\.[a-z]\w*)+(?!\w*\()")


def _below(places: Sequence[Node], path: Path) -> list[Node]:
    return [place for place in places if place.path[: len(path)] == path]


def _set_mentioned(place: Node, names: tuple[str, ...], rng: Random) -> Edit | None:
    """Set or drop the first of the names that is absent, or the last."""
    schema, value = place.schema, place.value
    for depth, name in enumerate(names):
        below = child_schema(schema, name)
        if below is None:
            return None
        path = (*place.path, *names[: depth + 1])
        last = depth == len(names) - 1
        if last and name in value and rng.random() < 0.4:
            return path, DROP
        if last or not isinstance(value.get(name), dict):
            return path, _interesting(below, rng)
        schema, value = below, value[name]
    return None


def _interesting(schema: Schema, rng: Random) -> Any:
    if schema.get("type") == "boolean":
        return rng.random() < 0.7
    if schema.get("type") == "integer":
        return rng.choice((0, 1, 2, 5))
    return generate(schema, rng, fill=rng.choice((0.1, 0.5)))


OPERATORS: dict[str, tuple[Operator, int]] = {
    function.__name__: (function, weight)
    for function, weight in (
        (drop, 4), (drop_required, 4), (other_type, 6), (unknown_field, 5), (duplicate_item, 4), (drop_list_key, 3),
        (bad_enum, 3), (bad_text, 6), (bad_number, 5), (bad_size, 4), (null, 4), (empty, 4), (bad_quantity, 4),
        (odd_key, 3), (anything, 2), (embedded, 2), (add_optional, 12), (regenerate, 6), (reorder, 2), (status, 1),
        (metadata, 5), (rule_fields, 12),
    )
}  # fmt: skip
"""Each with its weight."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """What was done, in words that find it again: `base` names the object, `edits` operator, path and value."""

    base: str
    number: int
    body: Body
    operators: tuple[str, ...] = ()
    edits: tuple[Edit, ...] = ()
    update: bool = False
    """Over the live object that was made from the base."""

    def __str__(self) -> str:
        told = ", ".join(
            f"{operator} at .{'.'.join(map(str, path))}" + (f" = {value!r:.80}" if value is not DROP else " away")
            for operator, (path, value) in zip(self.operators, self.edits, strict=True)
        )
        return f"{self.base}/{self.number}{' (update)' if self.update else ''}: {told}"


def mutate(base: str, body: Body, schema: Schema, *, seed: str, number: int, update: bool = False) -> Mutation:
    """The mutation of that number: the same seed, base and number give the same one."""
    rng = Random(f"{seed}/{base}/{number}/{update}")
    result = Mutation(base, number, body, update=update)
    wanted = rng.choices((1, 2, 3), (70, 22, 8))[0]
    operators, weights = list(OPERATORS), [weight for _, weight in OPERATORS.values()]
    while len(result.edits) < wanted:
        name = rng.choices(operators, weights)[0]
        edit = OPERATORS[name][0](list(nodes(schema, result.body)), rng)
        if edit is not None and edit[0][0] not in {"apiVersion", "kind"}:
            result = _with(result, name, edit)
    return result


def _with(mutation: Mutation, name: str, edit: Edit) -> Mutation:
    return replace(
        mutation,
        body=edited(mutation.body, *edit),
        operators=(*mutation.operators, name),
        edits=(*mutation.edits, edit),
    )


def mutations(
    bases: Sequence[tuple[str, Body, Schema]], *, seed: str, count: int, update: bool = False
) -> Iterator[Mutation]:
    """`count` mutations, as many of each base."""
    for number in range(-(-count // len(bases))):
        for base, body, schema in bases[: count - number * len(bases)]:
            yield mutate(base, body, schema, seed=seed, number=number, update=update)
