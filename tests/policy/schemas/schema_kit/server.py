"""The real API server as the one who is right: does it take an object, and do we say the same."""

import http.client
import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

from controlplane_kit import ApiServer

from gitops.policy.schemas.kind_schema import KindSchema
from gitops.policy.schemas.schema_set import SchemaSet
from gitops.policy.schemas.sources import schemas_of_definitions
from gitops.policy.verdicts import Verdict

GROUP = "differential.example.com"
_REFUSALS = {400, 409, 413, 422, 500}


def definition(
    kind: str,
    schema: Mapping[str, Any],
    *,
    scope: str = "Namespaced",
    subresources: Mapping[str, Any] | None = None,
    group: str = GROUP,
) -> dict[str, Any]:
    """A CustomResourceDefinition of one version, `v1`, whose plural is the kind's name with an s."""
    plural = f"{kind.lower()}s"
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": dict(schema)}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
            "versions": [version | ({"subresources": dict(subresources)} if subresources else {})],
        },
    }


def kind_of(crd: Mapping[str, Any]) -> KindSchema:
    (kind,) = schemas_of_definitions([crd]).kinds.values()
    return kind


class Asking:
    """One connection on which objects are applied, with dry run unless told."""

    def __init__(self, api: ApiServer) -> None:
        host, port = api.url.removeprefix("https://").split(":")
        self._connection = http.client.HTTPSConnection(host, int(port), context=api._tls, timeout=30)

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> "Asking":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def refusal(
        self, collection: str, body: Mapping[str, Any], *, keep: bool = False, manager: str = "differential"
    ) -> str | None:
        """Why the server refuses the object; None when it takes it."""
        query = {"fieldManager": manager, "force": "true", "fieldValidation": "Strict"}
        if not keep:
            query["dryRun"] = "All"
        metadata = body.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        name = urllib.parse.quote(str(name or "unnamed"), safe="")
        target = f"{collection}/{name}?{urllib.parse.urlencode(query)}"
        headers = {"Content-Type": "application/apply-patch+yaml"}
        self._connection.request("PATCH", target, json.dumps(body, ensure_ascii=False).encode(), headers)
        answer = self._connection.getresponse()
        text = answer.read().decode()
        if answer.status < 400:
            return None
        assert answer.status in _REFUSALS, text
        return str(json.loads(text)["message"])


def disagreement(
    asking: Asking, collection: str, kind: KindSchema, body: Mapping[str, Any], old: Mapping[str, Any] | None = None
) -> str | None:
    """What to say when the verdict is not the server's; UNVERIFIED agrees with both."""
    judgement = kind.judge(body, old)
    if judgement.verdict is Verdict.UNVERIFIED:
        return None
    refusal = asking.refusal(collection, body)
    if (refusal is None) == (judgement.verdict is Verdict.VALID):
        return None
    said = [f"{p.path}: {p.message} ({p.rule})" for p in judgement.problems]
    return f"{json.dumps(body)[:600]}\n  we: {judgement.verdict} {said}\n  server: {refusal and refusal[:600]}"


__all__ = ["GROUP", "Asking", "SchemaSet", "definition", "disagreement", "kind_of"]
