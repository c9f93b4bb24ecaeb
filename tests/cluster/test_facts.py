"""What a cluster tells of itself: from a real API server, and from one that is forbidding, huge or hostile."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from controlplane_kit.client import ApiServer

from gitops.cluster import openapi
from gitops.cluster.connection import Connection, Response
from gitops.cluster.discovery import Discovery, Resource, Survey
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed, unreachable
from gitops.cluster.facts import FactsReader, Generation
from gitops.cluster.objects import Objects
from gitops.cluster.operator_versions import operator_versions
from gitops.model.identity import ClusterName, GroupVersionKind
from gitops.model.onboarding import Detection
from gitops.policy.published import published_files, read_published
from gitops.policy.registry import OperatorRegistry
from gitops.policy.verdicts import Verdict

GADGET = GroupVersionKind("facts.example", "v1", "Gadget")
CONFIG = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")


def definition(kind: str = "Gadget", *, generation: int = 1, **properties: Any) -> dict[str, Any]:
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.facts.example", "uid": "u1", "generation": generation},
        "spec": {
            "group": "facts.example",
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "scope": "Namespaced",
            "versions": [version],
        },
    }


# -- a real server ---------------------------------------------------------------------------------------------------


@pytest.fixture
async def live(shared_api: ApiServer) -> AsyncIterator[FactsReader]:
    body = definition(size={"type": "integer", "maximum": 3})
    body["metadata"] = {"name": body["metadata"]["name"]}
    shared_api.create_crd_objects([body])
    connection = await Connection.open(Path(shared_api.kubeconfig), name=ClusterName("a"))
    yield FactsReader(connection, Discovery(connection))
    await connection.close()


def gadget(size: object) -> dict[str, Any]:
    return {"apiVersion": "facts.example/v1", "kind": "Gadget", "metadata": {"name": "a"}, "spec": {"size": size}}


async def test_a_server_tells_its_kinds_and_their_schemas(live: FactsReader) -> None:
    missing = GroupVersionKind("facts.example", "v1", "Missing")
    reading = await live.read({GADGET, CONFIG, DEPLOYMENT, missing}, server_version="v1")
    facts = reading.facts
    assert (reading.unread, reading.incomplete) == ((), False)
    assert facts.schemas.kinds.keys() == {GADGET, CONFIG, DEPLOYMENT}
    assert [facts.serves(gvk) for gvk in (GADGET, CONFIG, missing)] == [True, True, False]
    judge = facts.schemas.kinds[GADGET].judge
    assert [judge(gadget(size)).verdict for size in (3, 4, "x")] == [Verdict.VALID, Verdict.INVALID, Verdict.INVALID]
    assert reading.definitions.keys() == {"gadgets.facts.example"}


async def test_what_did_not_change_is_not_read_again(live: FactsReader) -> None:
    kinds = {GADGET, CONFIG, DEPLOYMENT}
    first = await live.read(kinds)
    stats = live._connection.stats
    before = stats.requests["facts"]
    again = await live.read(kinds, unchanged=first.definitions)
    assert stats.requests["facts"] - before == 1, "the index of the OpenAPI documents, with their hashes"
    assert again.facts.digest == first.facts.digest


async def test_what_is_published_says_the_same_as_the_cluster(live: FactsReader) -> None:
    facts = (await live.read({GADGET, CONFIG}, server_version="v1.34.0")).facts
    files = published_files(ClusterName("a"), facts)
    assert files == published_files(ClusterName("a"), facts)
    read = read_published({f"schemas/a/{path}": data for path, data in files.items()})
    assert read.findings == ()
    assert read.facts == {ClusterName("a"): facts} or read.facts[ClusterName("a")].digest == facts.digest


# -- a server that is not what it should be --------------------------------------------------------------------------


class Server:
    """Connection and discovery in one, with answers by path. What it has no answer for is 404."""

    def __init__(self, *kinds: GroupVersionKind) -> None:
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.silent: frozenset[str] = frozenset()
        plurals = {gvk: f"{gvk.kind.lower()}s" for gvk in kinds}
        self.resources = {gvk: Resource(gvk, plural, True, frozenset()) for gvk, plural in plurals.items()}
        self.survey_error: ApiError | None = None

    async def survey(self) -> Survey | ApiError:
        return self.survey_error or Survey(self.resources, self.silent)

    def known(self) -> Any:
        return self.resources

    async def request(self, method: str, path: str, *, limit: int, **_: Any) -> Response:
        self.asked.append(path)
        answer = self.answers.get(path, 404)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            status = {"kind": "Status", "code": answer, "reason": {403: "Forbidden"}.get(answer, ""), "message": "no"}
            return Response(answer, {}, json.dumps(status).encode())
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        if len(body) > limit:
            raise RequestFailed(ApiError(ErrorClass.REFUSED, 200, "TooLarge", "the answer is too large"))
        return Response(200, {}, body)

    def reader(self) -> FactsReader:
        return FactsReader(self, self)  # type: ignore[arg-type]


CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gadgets.facts.example"
DOCUMENT = "/openapi/v3/apis/facts.example/v1"
INDEX = {"paths": {"apis/facts.example/v1": {"serverRelativeURL": f"{DOCUMENT}?hash=1"}}}


def document(*, maximum: int = 3) -> dict[str, Any]:
    marks = {"group": "facts.example", "version": "v1", "kind": "Gadget"}
    spec = {"type": "object", "properties": {"size": {"type": "integer", "maximum": maximum}}}
    gadget_type = {
        "type": "object",
        "properties": {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "spec": spec},
        "x-kubernetes-group-version-kind": [marks],
    }
    path = "/apis/facts.example/v1/namespaces/{namespace}/gadgets/{name}"
    return {
        "paths": {path: {"patch": {"x-kubernetes-group-version-kind": marks}}},
        "components": {"schemas": {"example.facts.v1.Gadget": gadget_type, "Unused": {"type": "object"}}},
    }


async def test_where_definitions_may_not_be_read_openapi_serves() -> None:
    server = Server(GADGET, GroupVersionKind("facts.example", "v1", "Other"))
    server.answers = {CRD: 403, "/openapi/v3": INDEX, DOCUMENT: document()}
    reading = await server.reader().read(server.resources)
    assert GADGET in reading.facts.schemas.kinds
    assert (reading.unread, reading.incomplete) == ((), False)
    assert len([path for path in server.asked if "customresourcedefinitions" in path]) == 1, "the same answer for all"


async def test_a_document_is_read_again_when_its_hash_changes_only() -> None:
    server = Server(GADGET)
    server.answers = {"/openapi/v3": INDEX, DOCUMENT: document()}
    reader = server.reader()
    first = await reader.read({GADGET})
    await reader.read({GADGET})
    assert server.asked.count(DOCUMENT) == 1
    moved = {"paths": {"apis/facts.example/v1": {"serverRelativeURL": f"{DOCUMENT}?hash=2"}}}
    server.answers |= {"/openapi/v3": moved, DOCUMENT: document(maximum=5)}
    assert (await reader.read({GADGET})).facts.digest != first.facts.digest


HOSTILE: dict[str, bytes] = {
    "huge": b" " * (openapi.LARGEST + 1),
    "half": json.dumps(document()).encode()[:-40],
    "deep": b'{"paths":{},"components":{"schemas":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}}",
    "not an object": b"[1, 2]",
    "other types": b'{"paths": [], "components": 3}',
    "a page": b"<html>log in</html>",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE)
async def test_a_hostile_document_makes_its_kinds_unknown_and_nothing_else(data: bytes) -> None:
    server = Server(GADGET, CONFIG)
    server.answers = {"/openapi/v3": INDEX, DOCUMENT: document()}
    reader = server.reader()
    known = (await reader.read({GADGET})).facts.schemas
    other = {"paths": {"apis/facts.example/v1": {"serverRelativeURL": f"{DOCUMENT}?hash=2"}}}
    server.answers = {"/openapi/v3": other, DOCUMENT: data}
    reading = await server.reader().read({GADGET})
    assert reading.facts.schemas.kinds == {}
    assert len(reading.unread) == 1
    assert reading.facts.serves(GADGET), "it is served all the same"
    assert (await reader.read({GADGET})).facts.schemas.kinds == known.kinds, "what was known stays"


@pytest.mark.parametrize("data", [*HOSTILE.values(), b'{"metadata": 3, "spec": []}'], ids=[*HOSTILE, "no definition"])
async def test_a_hostile_definition_is_no_schema(data: bytes) -> None:
    server = Server(GADGET)
    server.answers = {CRD: data}
    reading = await server.reader().read({GADGET})
    assert reading.facts.schemas.kinds == {}


async def test_a_url_that_leads_elsewhere_is_not_followed() -> None:
    index = {"paths": {"apis/facts.example/v1": {"serverRelativeURL": "//elsewhere.example/openapi/v3/x"}}}
    assert openapi.read_index(json.dumps(index).encode()) == {}


def test_a_part_of_a_document_is_small_whatever_the_rest_is() -> None:
    whole = document()
    whole["components"]["schemas"] |= {f"t{n}": {"description": "x" * 1000} for n in range(1000)}
    part = openapi.part_of(json.dumps(whole).encode(), {GADGET})
    assert part["components"]["schemas"].keys() == {"example.facts.v1.Gadget"}
    assert len(msgspec.json.encode(part)) < 1000


async def test_a_failing_group_is_unknown_not_empty() -> None:
    server = Server(CONFIG)
    server.silent = frozenset({"facts.example/v1"})
    facts = (await server.reader().read({GADGET})).facts
    assert facts.serves(GADGET) is None
    assert facts.serves(GroupVersionKind("apps", "v1", "Gone")) is False


async def test_a_server_that_cannot_say_what_it_serves_is_asked_again() -> None:
    server = Server()
    server.survey_error = ApiError(ErrorClass.RETRY, 503, "DiscoveryFailed", "later")
    reading = await server.reader().read({GADGET})
    assert reading.facts.served is None
    assert reading.incomplete
    server.survey_error = unreachable("no route")
    with pytest.raises(RequestFailed):
        await server.reader().read({GADGET})


async def test_rights_that_cannot_be_told_pass_only_what_passed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Throttled at a restart or in a new session, the gate knows nothing, and opens for nobody."""
    answers: list[Mapping[str, str] | ApiError] = []

    async def rights(_: Objects, __: object) -> Mapping[str, str] | ApiError:
        return answers[-1]

    monkeypatch.setattr("gitops.cluster.facts.read_refused", rights)
    types = [OperatorRegistry.shipped().types[name] for name in ("dynamo", "nim")]
    reader, busy = Server().reader(), ApiError(ErrorClass.RETRY, 429, "TooManyRequests", "busy")

    async def refused(answer: Mapping[str, str] | ApiError, count: int) -> Mapping[str, str]:
        answers.append(answer)
        reading = await reader.read(set(), types[:count])
        assert reading.incomplete == isinstance(answer, ApiError)
        return reading.facts.refused

    assert (await refused(busy, 1)).keys() == {"dynamo"}, "nothing is known of it"
    assert await refused({}, 1) == {}
    assert (await refused(busy, 2)).keys() == {"nim"}, "what was known stays"
    assert await refused({"dynamo": "*"}, 2) == {"dynamo": "*"}
    assert await refused(busy, 2) == {"dynamo": "*"}


async def test_a_cluster_that_ends_in_the_middle_tells_nothing() -> None:
    server = Server(GADGET)
    server.answers = {CRD: RequestFailed(unreachable("gone"))}
    with pytest.raises(RequestFailed):
        await server.reader().read({GADGET})


async def test_a_definition_that_is_still_the_same_is_not_read_again() -> None:
    server = Server(GADGET)
    server.answers = {CRD: definition(size={"type": "integer"})}
    reader = server.reader()
    first = await reader.read({GADGET})
    assert first.definitions == {"gadgets.facts.example": Generation("u1", 1)}
    await reader.read({GADGET}, unchanged=first.definitions)
    assert server.asked.count(CRD) == 1
    await reader.read({GADGET}, unchanged={"gadgets.facts.example": Generation("u1", 2)})
    assert server.asked.count(CRD) == 2


# -- operator versions -----------------------------------------------------------------------------------------------


class Operator:
    """An operator type, as far as its version is told."""

    def __init__(self, **detection: Any) -> None:
        told = {"deployments": [{"selector": "app=manager", "container": "manager"}], **detection}
        self.metadata = type("Metadata", (), {"name": "dynamo"})
        self.spec = type("Spec", (), {"detection": Detection.model_validate(told)})


def copy(image: str, *, container: str = "manager", **labels: str) -> dict[str, Any]:
    pod = {"containers": [{"name": "proxy", "image": "proxy:9.9"}, {"name": container, "image": image}]}
    return {"metadata": {"name": "m", "labels": labels}, "spec": {"template": {"spec": pod}}}


LABEL = "app.kubernetes.io/version"
VERSIONS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "tag": ([copy("registry.example:5000/operator:1.2.1")], "1.2.1"),
    "tag and digest": ([copy("operator:v3.1.0@sha256:abc")], "v3.1.0"),
    "tag before label": ([copy("operator:1.2.1", **{LABEL: "9"})], "1.2.1"),
    "label": ([copy("operator:latest", **{LABEL: "1.3.0"})], "1.3.0"),
    "label, by a digest": ([copy("registry.example:5000/operator@sha256:abc", **{LABEL: "1.3.0"})], "1.3.0"),
    "another container": ([copy("operator:1.2.1", container="other")], ""),
    "no version": ([copy("operator:latest")], ""),
    "two copies of one": ([copy("operator:1.2.1"), copy("operator:1.2.1")], "1.2.1"),
    "two versions": ([copy("operator:1.2.1"), copy("operator:1.3.0")], ""),
    "nothing": ([], ""),
    "malformed": ([{"spec": []}, {"metadata": 3}, {"spec": {"template": {"spec": {"containers": [3]}}}}], ""),
}


@pytest.mark.parametrize(("items", "version"), VERSIONS.values(), ids=VERSIONS)
async def test_the_version_of_an_operator(items: list[dict[str, Any]], version: str) -> None:
    server = Server()
    server.answers = {"/apis/apps/v1/deployments": {"items": items}}
    failed: list[str] = []
    said: Callable[[str, ApiError], None] = lambda what, error: failed.append(what)  # noqa: E731
    found = await operator_versions(server, [Operator()], failed=said)  # type: ignore[arg-type, list-item]
    assert found == ({"dynamo": version} if version else {})
    assert failed == []


async def test_an_annotation_of_a_definition_tells_where_no_deployment_does() -> None:
    server = Server()
    annotated = {"metadata": {"annotations": {"example.com/version": "2.0.0"}}}
    server.answers = {"/apis/apps/v1/deployments": {"items": []}, CRD: annotated}
    operator = Operator(definition={"definition": "gadgets.facts.example", "annotation": "example.com/version"})
    found = await operator_versions(server, [operator], failed=lambda what, error: None)  # type: ignore[arg-type, list-item]
    assert found == {"dynamo": "2.0.0"}


async def test_deployments_that_may_not_be_read_are_told() -> None:
    server = Server()
    server.answers = {"/apis/apps/v1/deployments": 403}
    failed: list[str] = []
    found = await operator_versions(server, [Operator()], failed=lambda what, error: failed.append(what))  # type: ignore[arg-type, list-item]
    assert (found, failed) == ({}, ["the Deployments of dynamo"])
