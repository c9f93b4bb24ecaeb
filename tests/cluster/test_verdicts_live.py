"""Our verdict against the API server's: an edit is drift exactly when a dry run of our apply would change a value.

Every declared field of a corpus of kinds is removed, changed, written in another form, reordered and added to by
somebody else. Where both verdicts differ is said by EXPLAINED.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path as File
from typing import Any

import pytest
import yaml
from controlplane_kit.client import APPLY, ApiServer

from gitops.cluster import fields, unblocking
from gitops.cluster.applying import Applier
from gitops.cluster.connection import Connection, Response
from gitops.cluster.objects import JSON_PATCH
from gitops.manifests.lines import Path
from gitops.manifests.quantities import canonical_resources
from gitops.manifests.sanitizing import prepare_body
from gitops.plan.units import DesiredObject
from gitops.reconcile.observing import Sighting, observe
from gitops.reconcile.state import ObjectRecord

pytestmark = pytest.mark.controlplane

OURS = "gitops-verdicts"
Json = dict[str, Any]
KINDS = File(__file__).parents[1] / "e2e" / "data" / "builtin_kinds.yaml"
LEFT_OUT = {"Namespace", "Job", "Pod", "CustomResourceDefinition", "Endpoints"}
"""Hardly anything of these can be changed, or the server takes seconds to settle."""

MORE = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: forms, namespace: kinds, annotations: {enabled: "true", number: "1"}}
spec:
  replicas: 1
  strategy: {rollingUpdate: {maxSurge: 25%, maxUnavailable: 1}}
  selector: {matchLabels: {app: forms}}
  template:
    metadata: {labels: {app: forms}}
    spec:
      terminationGracePeriodSeconds: 30
      nodeSelector: {disk: fast}
      tolerations: [{key: gpu, operator: Exists}]
      containers:
        - name: c
          image: x
          args: ["--a", "--b"]
          ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]
          resources: {limits: {cpu: 1000m, memory: 1024Mi}}
          securityContext: {privileged: false}
          livenessProbe: {httpGet: {path: /, port: http}, timeoutSeconds: 1}
      volumes: [{name: scratch, emptyDir: {sizeLimit: 1024Mi}}]
---
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: forms, namespace: kinds}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: forms}
  maxReplicas: 5
  metrics:
    - {type: Pods, pods: {metric: {name: depth}, target: {type: AverageValue, averageValue: 1500m}}}
    - {type: External, external: {metric: {name: lag}, target: {type: Value, value: "2.50"}}}
---
apiVersion: v1
kind: Service
metadata: {name: forms, namespace: kinds}
spec:
  selector: {app: forms}
  ports: [{name: a, port: 53, targetPort: 53}, {name: b, port: 53, protocol: UDP, targetPort: dns}]
---
apiVersion: v1
kind: Secret
metadata: {name: bytes, namespace: kinds}
data: {token: b25l}
---
apiVersion: test.gitops.example/v1
kind: Gadget
metadata: {name: free, namespace: kinds}
spec:
  title: "1h0m0s"
  tags: [a, b]
  steps: [one, two]
  labels: {a: b}
  components: [{name: one, replicas: 0, limits: {cpu: 1000m, memory: 1}}, {name: two}]
  free: {enabled: true, list: [{a: 1}], map: {deep: {x: "1"}}, port: 80, nothing: {}}
"""


def corpus(namespace: str) -> Iterator[Json]:
    """As compile makes them, in this namespace: server's fields out, quantities canonical."""
    for text in (KINDS.read_text(encoding="utf-8"), MORE):
        for body in yaml.safe_load_all(text):
            if body["kind"] not in LEFT_OUT and not body["apiVersion"].startswith("kinds.example"):
                body["metadata"].setdefault("labels", {}).update({"gitops/reconciler": "main"})
                if "namespace" in body["metadata"]:
                    body["metadata"]["namespace"] = namespace
                yield canonical_resources(prepare_body(body)[0])


def place_of(api: ApiServer, body: Json) -> str:
    """The path at which the API server has an object."""
    version, metadata = body["apiVersion"], body["metadata"]
    base = "/api/v1" if version == "v1" else f"/apis/{version}"
    plural = next(r["name"] for r in api.get(base)["resources"] if r["kind"] == body["kind"] and "/" not in r["name"])
    scope = f"/namespaces/{metadata['namespace']}" if "namespace" in metadata else ""
    return f"{base}{scope}/{plural}/{metadata['name']}"


# -- edits -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Edit:
    name: str
    at: Path  # in the live object
    value: Any = None

    def at_a_place(self, kind: str) -> tuple[str, str]:
        """Its name and where it is, the same for all items of a list and all pod templates."""
        path = ".".join(("*" if isinstance(step, int) else str(step)) for step in self.at)
        inside = path.partition("template.spec.")[2]
        return self.name, f"pod template {inside}" if inside else f"{kind} {path}"


def edits(declared: Any, live: Any, at: Path = ()) -> Iterator[Edit]:
    """What somebody might do to what is declared. Items of lists are followed by place: fresh from our apply they stand
    as declared, but for what the server put before."""
    if isinstance(declared, dict) and isinstance(live, dict):
        for name, value in declared.items():
            if name in live and (at or name not in ("apiVersion", "kind", "metadata")):
                yield Edit("remove", (*at, name))
                yield Edit("null", (*at, name))
                yield from edits(value, live[name], (*at, name))
            elif name == "metadata" and not at:
                for place in ("labels", "annotations"):
                    yield from edits(value.get(place), live[name].get(place), (name, place))
        yield from [Edit("empty", at, {})] if at and live else []
        if at and all(isinstance(value, str) for value in live.values()):
            yield Edit("add a key", (*at, "theirs"), "x")
    elif isinstance(declared, list) and isinstance(live, list):
        if len(live) > 1:
            yield Edit("reorder", at, live[::-1])
        for extra in [other(live[0])] if live else []:
            yield Edit("add an item", at, [*live, extra])
            yield Edit("add an item before", at, [extra, *live])
        yield from [Edit("empty", at, [])] if live else []
        for position, item in enumerate(declared[: len(live)]):
            yield Edit("remove an item", (*at, position))
            yield from edits(item, live[position], (*at, position))
    else:
        for name, value in others_of(live):
            yield Edit(name, at, value)


def other(item: Any) -> Any:
    """Another item like this one."""
    if isinstance(item, str):
        return f"{item}x"
    if not isinstance(item, dict):
        return item
    changed = {k: f"{v}-x" for k, v in item.items() if k in ("name", "mountPath", "host", "key") and isinstance(v, str)}
    numbers = {k: v + 1 for k, v in item.items() if k in ("port", "containerPort", "nodePort") and isinstance(v, int)}
    return {**item, **changed, **numbers}


def others_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Other scalars in its place: another value, and the same in another form."""
    if isinstance(value, bool):
        yield "flip", not value
        return
    if isinstance(value, int):
        yield "raise", value + 1
        yield "as text", str(value)
        yield "zero", 0
        return
    text = str(value)
    yield "change", f"{text}-x"
    yield "empty", ""
    if re.fullmatch(r"\d+", text):
        yield "as number", int(text)
        yield "in thousandths", f"{text}000m"
        yield "one more", str(int(text) + 1)
    if match := re.fullmatch(r"(\d+)Gi", text):
        yield "in Mi", f"{int(match[1]) * 1024}Mi"
        yield "in Ti", f"{int(match[1]) + 1}Gi"
    if text.endswith("%"):
        yield "another share", "33%"
        yield "a number for a share", 3
    if text == "TCP":
        yield "another protocol", "UDP"


# -- verdicts --------------------------------------------------------------------------------------------------------


class Judge:
    """One object on the API server, with a record of it as the engine keeps one."""

    def __init__(self, connection: Connection, path: str, desired: DesiredObject) -> None:
        self.connection, self.path, self.desired = connection, path, desired
        self.fresh: Json = {}

    async def send(self, method: str, body: Any, manager: str, **query: str) -> Response:
        of = {OURS: APPLY, "kubectl-edit": JSON_PATCH}.get(manager, "application/json")
        query = {"fieldManager": manager, **query}
        return await self.connection.request(
            method, self.path, query=query, body=json.dumps(body).encode(), content_type=of
        )

    async def apply(self, **query: str) -> Response:
        return await self.send("PATCH", self.desired.body, OURS, force="true", **query)

    async def edit(self, edit: Edit) -> Json | None:
        """The object after it; None when the server refuses it or nothing comes of it."""
        where = "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in edit.at)
        operation = {"op": "remove", "path": where}
        if not edit.name.startswith("remove"):
            operation = {"op": "add" if edit.name == "add a key" else "replace", "path": where, "value": edit.value}
        answer = await self.send("PATCH", [operation], "kubectl-edit")
        live: Json = answer.json() if answer.ok else self.fresh
        return None if live["metadata"]["resourceVersion"] == self.fresh["metadata"]["resourceVersion"] else live

    def sighting(self, live: Json) -> Sighting:
        """What it is to a record that is as after our apply was answered."""
        prints = fields.fingerprint(self.desired.body, self.fresh, OURS)
        record = ObjectRecord(self.desired.ref, self.desired.gvk, uid=prints.uid)
        record.entry, record.values, record.answered = prints.entry_digest, prints.values_digest, prints.values_digest
        record.applied = record.last_desired = self.desired.digest
        return observe(record, self.desired, live, manager=OURS, content_applied=True).sighting

    async def restore(self, live: Json) -> None:
        """As it was before the edit, whoever owns what then."""
        metadata = {**self.fresh["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
        del metadata["managedFields"]
        assert (await self.send("PUT", {**self.fresh, "metadata": metadata}, "restorer")).ok
        await self.begin()

    async def begin(self) -> None:
        self.fresh = (await self.apply()).json()


def values(live: Json) -> Json:
    """What an apply could change."""
    metadata = {k: v for k, v in live["metadata"].items() if k in ("labels", "annotations", "finalizers")}
    return {**{k: v for k, v in live.items() if k != "status"}, "metadata": metadata}


EXPLAINED = {
    # Equal quantities, which a custom resource keeps as they were written: ours again, without a report (ssa-live 13).
    ("as number", "Gadget spec.components.*.limits.cpu"): (Sighting.LOST, "changes"),
    ("in thousandths", "Gadget spec.components.*.limits.cpu"): (Sighting.LOST, "changes"),
    ("as number", "Gadget spec.components.*.limits.memory"): (Sighting.LOST, "changes"),
    ("in thousandths", "Gadget spec.components.*.limits.memory"): (Sighting.LOST, "changes"),
}
"""Edit → both verdicts."""


async def test_an_edit_is_drift_exactly_when_a_dry_run_of_our_apply_would_change_a_value(
    shared_api: ApiServer, applier: Applier, desired: Callable[[Json], DesiredObject], gadgets: Any, namespace: str
) -> None:
    seen: set[tuple[str, str]] = set()
    verdicts: Counter[str] = Counter()
    other_than_theirs: dict[tuple[str, str], tuple[Sighting, str]] = {}
    for body in corpus(namespace):
        judge = Judge(applier.connection, place_of(shared_api, body), desired(body))
        await judge.begin()
        at_once = fields.compare(body, judge.fresh, OURS, applied=True)
        assert at_once.in_sync_as_applied, at_once
        for edit in edits(body, judge.fresh):
            place = edit.at_a_place(body["kind"])
            if place in seen:
                continue
            seen.add(place)
            if (live := await judge.edit(edit)) is None:
                continue
            sighting, answer = judge.sighting(live), await judge.apply(dryRun="All")
            if not answer.ok:
                # What is live stands in the way: then we know what to do about it.
                error = answer.error(applying=True)
                assert sighting is Sighting.DRIFTED
                assert unblocking.remedy(error, live, body, manager=OURS) is not None, (place, error)
                verdicts["blocked"] += 1
            elif (sighting is Sighting.DRIFTED) is (values(answer.json()) != values(live)):
                verdicts[sighting.value] += 1
            else:
                changes = "changes" if values(answer.json()) != values(live) else "changes nothing"
                other_than_theirs[place] = sighting, changes
            if not (answer.ok and values(answer.json()) == values(judge.fresh)):
                await judge.restore(live)
            else:
                await judge.begin()
    assert other_than_theirs == EXPLAINED
    assert verdicts["drifted"] > 300
    assert verdicts["quiet"] > 40
    assert verdicts["lost"] >= 5
    assert verdicts["blocked"] >= 5
