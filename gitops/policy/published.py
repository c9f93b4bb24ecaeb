"""What a cluster tells of itself, as files: on the status branch under schemas/<cluster>/, and in a pulled copy.

    dgx-a/index.yaml                  server version, served kinds, operator versions, and the digest of every schema
    dgx-a/core/v1/ConfigMap.json      the schema of one kind (gitops/policy/schemas/published.py)

The same facts give the same bytes. A file that is missing, damaged or not what the index says judges nothing, and that
is a finding: what is not known to be whole must not be taken for valid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gitops.manifests.canonical import digest
from gitops.manifests.lines import dotted
from gitops.manifests.raw import RawDocument
from gitops.manifests.reading import read_documents
from gitops.manifests.writing import yaml_text
from gitops.model.catalogue import finding
from gitops.model.cluster_facts import Index, Served
from gitops.model.documents import API_VERSION
from gitops.model.findings import Finding, Origin
from gitops.model.identity import ClusterName, GroupVersionKind
from gitops.policy import codes
from gitops.policy.facts import ClusterFacts
from gitops.policy.schemas.published import files_of, schemas_of_files
from gitops.policy.schemas.schema_set import NO_SCHEMAS, SchemaSet
from gitops.policy.schemas.sources import schemas_of_definitions

INDEX = "index.yaml"
_HEADER = "# Written by the reconciler; changes made here are overwritten.\n"


@dataclass(frozen=True, slots=True)
class Published:
    """What files say: of single clusters, and beside that for all of them (`schemas`)."""

    facts: Mapping[ClusterName, ClusterFacts] = field(default_factory=dict)
    schemas: SchemaSet = NO_SCHEMAS
    findings: tuple[Finding, ...] = ()


NOTHING_PUBLISHED = Published()

# -- writing -----------------------------------------------------------------------------------------------------------


def published_files(cluster: ClusterName, facts: ClusterFacts) -> dict[str, bytes]:
    """Path below the cluster's folder → content."""
    schemas = files_of(facts.schemas)
    body: dict[str, Any] = {"apiVersion": API_VERSION, "kind": "ClusterFacts", "cluster": str(cluster)}
    told = {
        "serverVersion": facts.server_version,
        "operatorVersions": dict(sorted(facts.versions.items())),
        "refusedOperators": dict(sorted(facts.refused.items())),
        "served": None if facts.served is None else _served(facts.served),
        "silent": sorted(facts.silent),
        "schemas": {name: digest(content).hex() for name, content in schemas.items()},
    }
    body |= {name: value for name, value in told.items() if value}
    if facts.served is not None:
        body.setdefault("served", {})
    body["digest"] = _digest_of(body)
    return {INDEX: (_HEADER + yaml_text(body)).encode(), **schemas}


def _digest_of(index: Mapping[str, Any]) -> str:
    return digest({name: value for name, value in index.items() if name != "digest"}).hex()


def _served(served: Mapping[GroupVersionKind, bool]) -> dict[str, dict[str, list[str]]]:
    told: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
    for gvk in sorted(served):
        told[gvk.api_version].setdefault("namespaced" if served[gvk] else "cluster", []).append(gvk.kind)
    return dict(told)


# -- reading -----------------------------------------------------------------------------------------------------------


def read_published(files: Mapping[str, bytes]) -> Published:
    """From path → content, paths as they are to be shown. A folder with an index is one cluster's copy; all other
    files hold CustomResourceDefinitions, which then hold for every cluster."""
    folders = {path.removesuffix(INDEX) for path in files if path == INDEX or path.endswith(f"/{INDEX}")}
    findings: list[Finding] = []
    facts: dict[ClusterName, ClusterFacts] = {}
    rest = dict(files)
    for folder in sorted(folders, reverse=True):  # one inside another comes first, and has its files to itself
        own = {path.removeprefix(folder): rest.pop(path) for path in list(rest) if path.startswith(folder)}
        name, told, found = _cluster(folder, own)
        findings += found
        if name in facts:
            findings.append(_bad(Origin(folder + INDEX), f"there is another copy of cluster {name}"))
        if told is not None:
            facts[name] = told
    definitions, found = _definitions(rest)
    return Published(facts, schemas_of_definitions(definitions), (*findings, *found))


def _cluster(folder: str, files: Mapping[str, bytes]) -> tuple[ClusterName, ClusterFacts | None, list[Finding]]:
    index, findings = _index(folder + INDEX, files[INDEX])
    if index is None:
        return ClusterName(""), None, findings
    whole: dict[str, bytes] = {}
    for name, wanted in index.schemas.items():
        content = files.get(name)
        problem = _damage(content)
        if content is not None and not problem and digest(content).hex() != wanted:
            problem = "it is not the file that the index names"
        if content is None or problem:
            findings.append(_bad(Origin(folder + name, 1 if content is not None else 0), problem))
        else:
            whole[name] = content
    facts = ClusterFacts(
        served=None if index.served is None else _kinds(index.served),
        silent=frozenset(index.silent),
        versions=index.operatorVersions,
        refused=index.refusedOperators,
        schemas=schemas_of_files(whole),
        server_version=index.serverVersion,
    )
    return ClusterName(index.cluster), facts, findings


def _damage(content: bytes | None) -> str:
    if content is None:
        return "it is missing, and the index names it"
    try:
        told = msgspec.json.decode(content, type=dict[str, msgspec.Raw])
    except (msgspec.MsgspecError, RecursionError):
        return "it is no JSON object; half of a file, perhaps"
    return "" if "schema" in told or "unusable" in told else "it holds no schema"


def _index(path: str, data: bytes) -> tuple[Index | None, list[Finding]]:
    result = read_documents(data, file=path)
    if result.findings or len(result.documents) != 1:
        line = result.findings[0].origin.line if result.findings else 0
        number = len(result.documents)
        why = result.findings[0].message if result.findings else f"it must hold one document, and holds {number}"
        return None, [_bad(Origin(path, line), why)]
    (document,) = result.documents
    try:
        index = Index.model_validate(document.body)
        if index.digest != _digest_of(document.body):
            return None, [_bad(_origin(document, ("digest",)), "it is not whole, or was changed")]
        return index, []
    except ValidationError as error:
        return None, [_bad(_origin(document, e["loc"]), _words(e)) for e in error.errors()[:5]]


def _words(error: ErrorDetails) -> str:
    where = dotted(error["loc"])
    return f"{where} is missing; half of a file, perhaps" if error["type"] == "missing" else f"{where}: {error['msg']}"


def _origin(document: RawDocument, at: Sequence[int | str]) -> Origin:
    return Origin(document.file, document.lines.line_of(tuple(at)))


def _kinds(served: Mapping[str, Served]) -> dict[GroupVersionKind, bool]:
    return {
        GroupVersionKind.parse(version, kind): scope
        for version, kinds in served.items()
        for scope, names in ((True, kinds.namespaced), (False, kinds.cluster))
        for kind in names
    }


def _definitions(files: Mapping[str, bytes]) -> tuple[list[Mapping[str, Any]], list[Finding]]:
    bodies: list[Mapping[str, Any]] = []
    findings: list[Finding] = []
    lost = [path for path in sorted(files) if path.endswith(".json") and not _damage(files[path])]
    if lost:
        more = f", and {len(lost) - 1} more with it" if len(lost) > 1 else ""
        findings.append(_bad(Origin(lost[0]), f"it is of a copy that has no {INDEX}{more}"))
    for path in sorted(files.keys() - set(lost)):
        result = read_documents(files[path], file=path)
        findings += [_bad(f.origin, f.message) for f in result.findings if f.severity == "error"]
        mine = [d.body for d in result.documents if isinstance(d.body, dict)]
        defining = [body for body in mine if body.get("kind") == "CustomResourceDefinition"]
        if result.complete and not defining:
            findings.append(_bad(Origin(path), "it holds no CustomResourceDefinition"))
        bodies += defining
    return bodies, findings


def _bad(origin: Origin, why: str) -> Finding:
    return finding(codes.BAD_SCHEMA_FILE, f"not used: {why}", origin)
