"""Where schemas come from: CustomResourceDefinitions, and the OpenAPI v3 documents that an API server publishes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gitops.model.identity import GroupVersionKind
from gitops.policy.schemas.kind_schema import Header, KindSchema
from gitops.policy.schemas.schema_set import SchemaSet

# -- CustomResourceDefinitions -----------------------------------------------------------------------------------------


def schemas_of_definitions(definitions: Iterable[Mapping[str, Any]]) -> SchemaSet:
    """The served versions of CustomResourceDefinitions (apiextensions.k8s.io/v1), however malformed."""
    return SchemaSet.of(kind for body in definitions for kind in kinds_of_definition(body))


def kinds_of_definition(definition: Mapping[str, Any]) -> Iterator[KindSchema]:
    spec = _map(definition.get("spec"))
    group, kind = spec.get("group"), _map(spec.get("names")).get("kind")
    versions = spec.get("versions")
    for version in versions if isinstance(versions, list) else ():
        name = _map(version).get("name")
        if not (isinstance(group, str) and isinstance(kind, str) and isinstance(name, str)):
            continue
        if version.get("served") is True:
            header = _header_of_version(spec, version)
            schema = _map(version.get("schema")).get("openAPIV3Schema")
            yield KindSchema.made(GroupVersionKind(group, name, kind), schema, header=header)


def _header_of_version(spec: Mapping[str, Any], version: Mapping[str, Any]) -> Header:
    subresources = _map(version.get("subresources"))
    scale = _map(subresources.get("scale"))
    paths = {"spec": scale.get("specReplicasPath"), "status": scale.get("statusReplicasPath")}
    return Header(
        namespaced=spec.get("scope") != "Cluster",
        subresources=tuple(sorted(name for name in subresources if isinstance(name, str))),
        scale={name: path for name, path in paths.items() if isinstance(path, str)},
        unusable="it keeps unknown fields everywhere" if spec.get("preserveUnknownFields") is True else "",
    )


# -- OpenAPI v3 --------------------------------------------------------------------------------------------------------


def schemas_of_openapi(documents: Iterable[Mapping[str, Any]]) -> SchemaSet:
    """The kinds that documents of `/openapi/v3/api/<version>` and `/openapi/v3/apis/<group>/<version>` serve.

    Only kinds with a path to apply to: lists, options and answers are no kinds of anybody's manifests. Custom kinds
    are taken from their definitions where those are known: a document does not tell the paths of a scale subresource.
    """
    return SchemaSet.of(kind for document in documents for kind in kinds_of_openapi(document))


def kinds_of_openapi(document: Mapping[str, Any]) -> Iterator[KindSchema]:
    components = _map(_map(document.get("components")).get("schemas"))
    by_kind = {gvk: name for name, schema in components.items() for gvk in _kinds_of(schema)}
    for gvk, header in _served(_map(document.get("paths"))).items():
        name = by_kind.get(gvk)
        if name is None:
            continue
        native = name.startswith(_NATIVE)
        found = Header(native, header.namespaced, header.subresources)
        needed = _needed(name, components)
        yield KindSchema.made(gvk, {"$ref": f"#/definitions/{name}"}, definitions=needed, header=found)


_NATIVE = ("io.k8s.api.", "io.k8s.kube-aggregator.", "io.k8s.apiextensions-apiserver.")
"""How the types of Kubernetes itself are named in its documents; custom kinds are named by their reversed group."""


def _served(paths: Mapping[str, Any]) -> dict[GroupVersionKind, Header]:
    """Kinds that can be applied, by the path of one object and the paths under it."""
    objects: dict[str, GroupVersionKind] = {}
    for path, item in paths.items():
        told = _map(_map(_map(item).get("patch")).get("x-kubernetes-group-version-kind"))
        if told and path.endswith("/{name}"):
            objects[path] = _gvk(told)
    headers = {}
    for path, gvk in objects.items():
        under = sorted(rest for other in paths if (rest := other.removeprefix(f"{path}/")) != other and "/" not in rest)
        headers[gvk] = Header(namespaced="/namespaces/{namespace}/" in path, subresources=tuple(under))
    return headers


def _kinds_of(schema: object) -> Iterator[GroupVersionKind]:
    told = _map(schema).get("x-kubernetes-group-version-kind")
    for entry in told if isinstance(told, list) else ():
        yield _gvk(_map(entry))


def _gvk(told: Mapping[str, Any]) -> GroupVersionKind:
    return GroupVersionKind(*(str(told.get(word) or "") for word in ("group", "version", "kind")))


def _needed(name: str, components: Mapping[str, Any]) -> dict[str, Any]:
    """The component and all that it refers to, directly and not."""
    needed: dict[str, Any] = {}
    waiting = [name]
    while waiting:
        name = waiting.pop()
        if name not in needed and name in components:
            needed[name] = components[name]
            waiting.extend(_references(components[name]))
    return needed


def _references(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            if isinstance(reference := part.get("$ref"), str):
                yield reference.rpartition("/")[2]
            waiting.extend(part.values())
        elif isinstance(part, list):
            waiting.extend(part)


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
