"""One API server with every upstream definition, the objects that it takes, and our schemas of the same kinds."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import yaml
from controlplane_kit.client import ApiServer

from differential_kit.generating import generate
from differential_kit.oracle import Oracle
from differential_kit.samples import CURRENT, Body, Sample, read_definitions, read_samples, schemas_of
from differential_kit.walking import Schema
from gitops.model.identity import GroupVersionKind
from gitops.policy.schemas.schema_set import SchemaSet
from gitops.policy.schemas.sources import schemas_of_definitions, schemas_of_openapi

DATA = Path(__file__).parent.parent / "data"
NAMESPACE = "differential"

Kind = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Base:
    """An object that the API server takes; mutations start from it. `live` is what an apply of it gave."""

    name: str
    body: Body
    schema: Schema

    @property
    def kind(self) -> Kind:
        return self.body["apiVersion"], self.body["kind"]


class Ground:
    """Built once for a module of tests; everything in it is read only but the API server."""

    def __init__(self, api: ApiServer, upstream: Path) -> None:
        self.api = api
        self.oracle = Oracle(api)
        api.create_namespace(NAMESPACE)
        self.definitions = [*read_definitions(*(upstream / folder for folder in CURRENT)), *read_definitions(DATA)]
        api.create_crd_objects(self.definitions)
        self.custom = schemas_of(self.definitions)
        self.samples = list(read_samples(upstream))
        self.by_definitions = schemas_of_definitions(self.definitions)
        self._documents: dict[str, Body] = {}
        self.by_openapi = api.wait(self._published, "OpenAPI v3 of all kinds")

    def _published(self) -> SchemaSet | None:
        """Our schemas from what the server publishes, once all kinds are in it: it writes them in the background."""
        index = self._document("")["paths"]
        wanted = {_root(version) for version, _ in (*self.custom, *_CORE)}
        if not wanted <= set(index):
            return None
        self._documents = {path: self._document(f"/{path}") for path in wanted}
        found = schemas_of_openapi(self._documents.values())
        return found if all(found.get(gvk_of(kind)) for kind in self.custom) else None

    def _document(self, path: str) -> Body:
        found = self.api.request("GET", f"/openapi/v3{path}")
        return json.loads(found) if isinstance(found, str) else found  # the index is sent as text

    def core_schemas(self) -> dict[Kind, Schema]:
        """Schemas of the built-in kinds of core.yaml, with references resolved."""
        return {kind: _inlined(self._documents[_root(kind[0])], kind) for kind in _CORE}

    def accepted(self, bodies: Iterable[tuple[str, Body]], schemas: Mapping[Kind, Schema]) -> list[Base]:
        """Those that the server takes."""
        named = list(bodies)
        answers = self.oracle.apply_all((body, body["metadata"]["name"], NAMESPACE) for _, body in named)
        return [
            Base(name, body, schemas[body["apiVersion"], body["kind"]])
            for (name, body), answer in zip(named, answers, strict=True)
            if answer.accepted
        ]

    def bases(self) -> list[Base]:
        """Custom objects: those of upstream files, of probes.yaml, and a few made from each schema."""
        found = [(str(sample), applied(sample)) for sample in self.samples if is_object(sample)]
        found += [(f"probes.yaml#{n}", body) for n, body in enumerate(_documents(DATA / "probes.yaml"))]
        usable = [(name, body) for name, body in found if (body["apiVersion"], body["kind"]) in self.custom]
        return [*self.accepted(usable, self.custom), *self._generated()]

    def _generated(self) -> list[Base]:
        made = []
        for kind, schema in self.custom.items():
            tries = [(f"generated {kind[1]} {kind[0]} {number}", _made(kind, schema, number)) for number in range(12)]
            large_first = sorted(tries, key=lambda entry: -len(json.dumps(entry[1])))
            made += self.accepted(large_first, self.custom)[:4]
        return made

    def core_bases(self) -> list[Base]:
        """Built-in objects, of upstream files and of core.yaml."""
        schemas = self.core_schemas()
        found = [(str(sample), applied(sample)) for sample in self.samples if is_object(sample)]
        found += [(f"core.yaml#{n}", body) for n, body in enumerate(_documents(DATA / "core.yaml"))]
        return self.accepted([(n, b) for n, b in found if (b["apiVersion"], b["kind"]) in schemas], schemas)


def gvk_of(kind: Kind) -> GroupVersionKind:
    return GroupVersionKind.parse(*kind)


def is_object(sample: Sample) -> bool:
    """Whether it could be sent at all."""
    return sample.body is not None and bool((sample.body.get("metadata") or {}).get("name"))


def applied(sample: Sample) -> Body:
    """The object without its namespace: it goes into one of ours."""
    assert sample.body is not None
    metadata = {key: value for key, value in sample.body["metadata"].items() if key != "namespace"}
    return {**sample.body, "metadata": metadata}


def _made(kind: Kind, schema: Schema, number: int) -> Body:
    rng = Random(f"{kind}/{number}")
    body = generate(schema, rng, depth=4, fill=rng.choice((0, 0.1, 0.3, 0.5)))
    body.pop("status", None)
    return {**body, "apiVersion": kind[0], "kind": kind[1], "metadata": {"name": "generated"}}


def _documents(file: Path) -> list[Body]:
    return list(yaml.safe_load_all(file.read_text()))


_CORE: list[Kind] = [(body["apiVersion"], body["kind"]) for body in _documents(DATA / "core.yaml")]


def _root(api_version: str) -> str:
    return f"apis/{api_version}" if "/" in api_version else f"api/{api_version}"


def _inlined(document: Body, kind: Kind) -> Schema:
    components = document["components"]["schemas"]
    group, _, version = kind[0].rpartition("/")
    wanted = {"group": group, "kind": kind[1], "version": version}
    name = next(n for n, c in components.items() if wanted in c.get("x-kubernetes-group-version-kind", ()))
    return _resolved(components[name], components, 12)


def _resolved(schema: Any, components: Body, depth: int) -> Any:
    if isinstance(schema, list):
        return [_resolved(part, components, depth) for part in schema]
    if not isinstance(schema, dict):
        return schema
    parts = schema.get("allOf", ())
    reference = schema.get("$ref") or (parts[0].get("$ref") if len(parts) == 1 else None)
    if isinstance(reference, str):
        rest = {key: value for key, value in schema.items() if key not in {"$ref", "allOf"}}
        target = components[reference.rpartition("/")[2]] if depth else {}
        return {**_resolved(target, components, depth - 1), **rest}
    return {key: _resolved(part, components, depth) for key, part in schema.items()}
