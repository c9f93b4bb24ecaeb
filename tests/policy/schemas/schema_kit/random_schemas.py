"""Structural schemas and values for them, from a seed: combinations that nobody would write down."""

import random
from typing import Any

WORDS = ["", "a", "b", "ab", "xyz", "1", "10.0.0.1", "2020-01-01", "1h", "é", "a b", "A"]
PATTERNS = ["^[a-z]*$", "^.{0,2}$", "[0-9]", "(?i)^A", r"^\w+$", "^$|b"]
FORMATS = ["date", "ipv4", "duration", "uuid", "byte", "uri", "hostname", "date-time", "int32", "nonsense"]
KEYS = ["a", "b", "c", "k"]


class Schemas:
    """Makes schemas that an API server serves: words of values may be nested, words of structure may not."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def schema(self, depth: int = 3) -> dict[str, Any]:
        made = self._plain(depth)
        if self._some(0.2) and not made.get("x-kubernetes-embedded-resource"):
            made["nullable"] = True
        if self._some(0.35):
            made |= self._combined(made, depth)
        return made

    def value(self, schema: dict[str, Any], depth: int = 0) -> Any:
        """Mostly what the schema wants, sometimes anything."""
        pick = self._random
        if self._some(0.12):
            return pick.choice([None, True, 0, -1, 7, 1.5, "", "a", [], ["a"], {}, {"a": "b"}, {"z": 1}, [None], [{}]])
        if "enum" in schema and self._some(0.7):
            return pick.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return pick.choice([1, 5, "1", "a", "5%"])
        if "items" in schema:
            return [self.value(schema["items"], depth + 1) for _ in range(pick.choice([0, 1, 1, 2, 2, 3]))]
        if "additionalProperties" in schema:
            names = pick.sample(KEYS, pick.randint(0, 3))
            return {name: self.value(schema["additionalProperties"], depth + 1) for name in names}
        if schema.get("type") == "object" or not schema.get("type"):
            return self._map(schema, depth)
        if schema["type"] == "string":
            return pick.choice(WORDS)
        if schema["type"] == "boolean":
            return self._some(0.5)
        numbers = [0, 1, 2, 3, 4, 5, 10, -3, 2**31, 4.0]
        return pick.choice(numbers if schema["type"] == "integer" else [*numbers, 0.5, 2.5, 1.25])

    def default(self, schema: dict[str, Any]) -> Any:
        """A value for `default`, or None: servers refuse definitions whose defaults do not fit, so only plain ones."""
        if set(schema) != {"type"}:
            return None
        return {"string": "ab", "integer": 3, "number": 2.5, "boolean": True}.get(schema["type"])

    def _map(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        fields = schema.get("properties", {})
        made = {name: self.value(child, depth + 1) for name, child in fields.items() if self._some(0.7)}
        for name in schema.get("required", ()):
            if name in fields and self._some(0.8):
                made.setdefault(name, self.value(fields[name], depth + 1))
        if schema.get("x-kubernetes-embedded-resource"):
            made |= {
                "apiVersion": self._random.choice(["v1", "a/v1", "a/b/c"]),
                "kind": self._random.choice(["Pod", "9"]),
            }
        if self._some(0.06):
            made["zz"] = 1
        return made

    def _plain(self, depth: int) -> dict[str, Any]:
        kinds = ["string", "integer", "number", "boolean", "int-or-string", "keep"]
        kind = self._random.choice(
            [*kinds, "object", "object", "array", "keyed", "set", "map", "embedded"] if depth else kinds
        )
        made: dict[str, Any] = {"type": kind}
        if kind == "int-or-string":
            made = {"x-kubernetes-int-or-string": True}
        elif kind == "keep":
            made = {"x-kubernetes-preserve-unknown-fields": True} | ({"type": "object"} if self._some(0.5) else {})
        elif kind == "embedded":
            made = {
                "type": "object",
                "x-kubernetes-embedded-resource": True,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        elif kind in ("object", "keyed"):
            made = self._object(depth)
        elif kind == "map":
            made = {"type": "object", "additionalProperties": self.schema(depth - 1)}
        elif kind == "array":
            made = {"type": "array", "items": self.schema(depth - 1)}
        elif kind == "set":
            made = {"type": "array", "items": {"type": self._random.choice(["string", "integer"])}}
            made["x-kubernetes-list-type"] = "set"
        if kind == "keyed":
            made["properties"]["k"] = {"type": self._random.choice(["string", "integer"])}
            made["required"] = sorted({*made.get("required", ()), "k"})
            keyed = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"]}
            made = {"type": "array", "items": made, **keyed}
        return made | self._words(made)

    def _object(self, depth: int) -> dict[str, Any]:
        fields = {name: self.schema(depth - 1) for name in self._random.sample(KEYS, self._random.randint(1, 3))}
        for child in fields.values():
            if self._some(0.3) and (default := self.default(child)) is not None:
                child["default"] = default
        made: dict[str, Any] = {"type": "object", "properties": fields}
        if self._some(0.4):
            made["required"] = [self._random.choice(KEYS)]
        if self._some(0.2):
            made["x-kubernetes-preserve-unknown-fields"] = True
        return made

    def _words(self, made: dict[str, Any]) -> dict[str, Any]:
        """One or two words that values have to satisfy."""
        pick, words = self._random, {}
        kind = made.get("type")
        if not self._some(0.6):
            return {}
        if kind == "string":
            words = {
                "minLength": pick.randint(0, 2),
                "maxLength": pick.randint(1, 4),
                "pattern": pick.choice(PATTERNS),
                "format": pick.choice(FORMATS),
                "enum": pick.sample(WORDS, 4),
            }
        elif kind in ("integer", "number"):
            words = {
                "minimum": pick.choice([0, 1, 2.5, -1]),
                "maximum": pick.choice([3, 4.5, 100]),
                "multipleOf": pick.choice([2, 0.5, 3]),
                "enum": pick.sample([1, 2, 3, 4, 5], 3),
                "format": pick.choice(["int32", "int64", "double", "float"]),
            }
        elif kind == "object":
            words = {"minProperties": pick.randint(0, 2), "maxProperties": pick.randint(1, 3)}
        elif kind == "array":
            words = {"minItems": pick.randint(0, 2), "maxItems": pick.randint(1, 3)}
        chosen = pick.sample(sorted(words), min(len(words), pick.randint(1, 2)))
        found = {word: words[word] for word in chosen}
        if "minimum" in found and self._some(0.3):
            found["exclusiveMinimum"] = True
        return found

    def _combined(self, made: dict[str, Any], depth: int) -> dict[str, Any]:
        word = self._random.choice(["anyOf", "oneOf", "allOf", "not"])
        parts = [self._nested(made, 2) for _ in range(self._random.randint(1, 3))]
        return {word: parts[0] if word == "not" else parts}

    def _nested(self, made: dict[str, Any], depth: int) -> dict[str, Any]:
        """Words of values only, for the type that is meant, and for fields and items that are declared."""
        kind = made.get("type", "string")
        part = self._words({"type": kind})
        fields = [name for name, child in made.get("properties", {}).items() if child.get("type")]
        if fields and self._some(0.5):
            name = self._random.choice(fields)
            part["properties"] = {name: self._nested(made["properties"][name], depth - 1) if depth else {}}
        if made.get("properties") and self._some(0.5):
            part["required"] = [self._random.choice(sorted(made["properties"]))]
        if "items" in made and depth and self._some(0.5):
            part["items"] = self._nested(made["items"], depth - 1)
        if self._some(0.1) and depth:
            part["not"] = self._nested(made, 0)
        return part

    def _some(self, share: float) -> bool:
        return self._random.random() < share
