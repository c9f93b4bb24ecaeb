"""Which version of an operator runs on a cluster.

Told by the tag of its container's image in the Deployment that the operator type selects, else by that Deployment's
label app.kubernetes.io/version, else by an annotation of a definition. Tags that are no versions (`latest`, a digest)
tell nothing. Copies in different versions tell nothing either: which of them takes an object, nobody knows here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from packaging.version import InvalidVersion, Version

from gitops.cluster.connection import Connection, Response
from gitops.cluster.errors import ApiError, ErrorClass, RequestFailed
from gitops.model.onboarding import Detection, OperatorDeployment
from gitops.model.operators import OperatorType

VERSION_LABEL = "app.kubernetes.io/version"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
LARGEST_ANSWER = 4 << 20
MOST_COPIES = 20
"""Deployments of one operator that are looked at."""

Failed = Callable[[str, ApiError], None]


async def operator_versions(connection: Connection, types: Iterable[OperatorType], *, failed: Failed) -> dict[str, str]:
    """Operator type → version, where it can be told. `failed` hears what could not be read. Raises RequestFailed when
    the cluster does not answer."""
    found: dict[str, str] = {}
    for operator in types:
        name, detection = operator.metadata.name, operator.spec.detection
        version = await _version(connection, name, detection, failed) if detection is not None else ""
        if version:
            found[name] = version
    return found


async def _version(connection: Connection, name: str, detection: Detection, failed: Failed) -> str:
    live: dict[str, list[Mapping[str, Any]]] = {}  # by selector, which versions of one operator may share
    for selector in dict.fromkeys(wanted.selector for wanted in detection.deployments):
        query = {"labelSelector": selector, "limit": str(MOST_COPIES)}
        body = await _read(connection, "/apis/apps/v1/deployments", query, f"the Deployments of {name}", failed)
        items = body.get("items")
        live[selector] = [item for item in (items if isinstance(items, list) else ()) if isinstance(item, dict)]
    copies = [(wanted, item) for wanted in detection.deployments for item in live[wanted.selector]]
    for told in (_by_image, _by_label):
        versions = {version for wanted, item in copies for version in told(wanted, item)}
        if versions:
            return versions.pop() if len(versions) == 1 else ""
    annotated = detection.definition
    if annotated is None:
        return ""
    path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{quote(annotated.definition, safe='')}"
    body = await _read(connection, path, None, f"the definition of {name}", failed, accept=METADATA_ONLY)
    annotations = _map(_map(body.get("metadata")).get("annotations"))
    return next(_version_of(annotations.get(annotated.annotation)), "")


async def _read(
    connection: Connection,
    path: str,
    query: Mapping[str, str] | None,
    what: str,
    failed: Failed,
    *,
    accept: str = "application/json",
) -> Mapping[str, Any]:
    try:
        response: Response = await connection.request(
            "GET", path, query=query, accept=accept, verb="facts", limit=LARGEST_ANSWER
        )
        if response.ok:
            return _map(response.json())
        if response.status != 404:
            failed(what, response.error())
    except RequestFailed as problem:
        if problem.error.cls is not ErrorClass.REFUSED and problem.error.reason != "NotJson":
            raise
        failed(what, problem.error)
    return {}


def _by_image(wanted: OperatorDeployment, deployment: Mapping[str, Any]) -> Iterator[str]:
    template = _map(_map(deployment.get("spec")).get("template"))
    containers = _map(template.get("spec")).get("containers")
    for container in containers if isinstance(containers, list) else ():
        image = _map(container).get("image")
        if _map(container).get("name") == wanted.container and isinstance(image, str):
            yield from _version_of(image.partition("@")[0].rpartition("/")[2].partition(":")[2])


def _by_label(_: OperatorDeployment, deployment: Mapping[str, Any]) -> Iterator[str]:
    yield from _version_of(_map(_map(deployment.get("metadata")).get("labels")).get(VERSION_LABEL))


def _version_of(text: object) -> Iterator[str]:
    """The text, if it is a version."""
    if isinstance(text, str) and 0 < len(text) <= 64:
        try:
            Version(text)
        except InvalidVersion:
            return
        yield text


def _map(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
