"""Lists by key on a real API server: what server-side apply makes of a base and a patch, ours is too, order included.

For each pair the base is applied by one manager and the patch by another, forced, as a dry run; the answer is compared
with our merge of the two. Compared is everything that is in ours: each value, and every list with its length and order.
Left out:

- **Fields that only the server's object has**: defaults and what the server writes (status, clusterIP, uid). Neither
  text has them. A default that is a list's key (`protocol: TCP`) is part of the pairs: items still have to meet.
- **Maps that a schema calls atomic** (selectors, references to keys of a ConfigMap): the server replaces them whole, we
  merge maps as RFC 7386 has it. The pairs give them with the same keys in both, where the two agree.
- **Nulls**: server-side apply has no removal of that kind.
- **CEL rules, patterns and bounds of values** of custom resources: they say which values are good, not how lists merge,
  and would refuse most random objects. The definitions here are the operators' own without them.
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from controlplane_kit.client import APPLY, ApiServer

from gitops.model.findings import Origin
from gitops.model.identity import GroupVersionKind
from gitops.overlays.applying import apply_patches
from gitops.overlays.patches import MergePatchSource
from gitops.overlays.provenance import Provenance
from gitops.overlays.shapes import ListKind, Shape
from gitops.policy.registry import OperatorRegistry
from gitops.policy.schemas.shapes import shapes_of_definition

SCHEMAS = OperatorRegistry.shipped().schemas


def ours(base: dict[str, Any], patch: dict[str, Any], shape: Shape) -> dict[str, Any]:
    source = MergePatchSource(patch, Provenance.of_origin(Origin("patch.yaml", 1)), by_key=True)
    result = apply_patches(base, Provenance.of_origin(Origin("base.yaml", 1)), [source], shape=shape)
    assert result.findings == ()
    return result.body


def apply(api: ApiServer, url: str, body: dict[str, Any], manager: str, *, dry: bool) -> Any:
    query = {"fieldManager": manager, "force": "true"} | ({"dryRun": "All"} if dry else {})
    return api.request("PATCH", f"{url}/{body['metadata']['name']}", body, content_type=APPLY, query=query)


def differences(mine: Any, live: Any, path: str = "") -> Iterator[str]:
    """Where the live object is not as ours says; keys that only it has are not looked at."""
    if isinstance(mine, dict) and isinstance(live, dict):
        for key, value in mine.items():
            if key in live:
                yield from differences(value, live[key], f"{path}/{key}")
            elif value not in ({}, []):  # the server drops some empties of built-in kinds, which mean absent there
                yield f"{path}/{key}: not there"
    elif isinstance(mine, list) and isinstance(live, list) and len(mine) == len(live):
        for position, (one, other) in enumerate(zip(mine, live, strict=True)):
            yield from differences(one, other, f"{path}/{position}")
    elif mine != live:
        yield f"{path}: ours {json.dumps(mine)[:300]}, live {json.dumps(live)[:300]}"


# -- Kubernetes' own kinds -------------------------------------------------------------------------------------------


class Objects:
    """Random objects of Kubernetes' own kinds that are valid in any mix of two."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def some(self, names: str | list[Any], least: int = 0) -> list[Any]:
        return self.random.sample(list(names), self.random.randint(least, len(names)))

    def maybe(self, **fields: Any) -> dict[str, Any]:
        return {name: make() for name, make in fields.items() if self.random.random() < 0.6}

    def text(self) -> str:
        return self.random.choice(["one", "two", "three"])

    def container(self, name: str) -> dict[str, Any]:
        return {
            "name": name,
            "image": self.text(),
            **self.maybe(
                args=lambda: self.some(["a", "b", "c"]),
                env=lambda: [{"name": n, "value": self.text()} for n in self.some("ABCDE")],
                ports=self.ports,
                volumeMounts=lambda: [
                    {"mountPath": f"/{n}", "name": self.random.choice("vw")} for n in self.some("abcd")
                ],
                resources=lambda: {"limits": {n: self.random.choice(["1", "2"]) for n in self.some(["cpu", "memory"])}},
            ),
        }

    def ports(self) -> list[dict[str, Any]]:
        wanted = self.some([(80, None), (80, "UDP"), (81, "TCP"), (82, None), (83, "SCTP")])
        return [{"containerPort": port, **({"protocol": kind} if kind else {})} for port, kind in wanted]

    def template(self) -> dict[str, Any]:
        volumes = [{"name": n, "emptyDir": {}} for n in self.some("vw", 2)]
        spread = [("zone", "DoNotSchedule"), ("zone", "ScheduleAnyway"), ("host", "DoNotSchedule")]
        return {
            "metadata": {"labels": {"app": "x", **{n: self.text() for n in self.some("lm")}}},
            "spec": {
                "containers": [self.container(n) for n in self.some("abc", 1)],
                "volumes": volumes,
                **self.maybe(
                    initContainers=lambda: [self.container(n) for n in self.some("ij")],
                    imagePullSecrets=lambda: [{"name": n} for n in self.some("pqr")],
                    hostAliases=lambda: [{"ip": f"10.0.0.{n}", "hostnames": [self.text()]} for n in self.some("123")],
                    tolerations=lambda: [{"key": n, "operator": "Exists"} for n in self.some("tu")],
                    topologySpreadConstraints=lambda: [
                        {"topologyKey": k, "whenUnsatisfiable": w, "maxSkew": self.random.randint(1, 3)}
                        for k, w in self.some(spread)
                    ],
                ),
            },
        }

    def deployment(self) -> dict[str, Any]:
        return {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": self.template()}}

    def statefulset(self) -> dict[str, Any]:
        return {"spec": {"serviceName": "x", **self.deployment()["spec"]}}

    def cronjob(self) -> dict[str, Any]:
        template = self.template()
        template["spec"]["restartPolicy"] = "Never"
        return {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": template}}}}

    def podtemplate(self) -> dict[str, Any]:
        return {"template": self.template()}

    def service(self) -> dict[str, Any]:
        wanted = self.some([(80, None), (80, "UDP"), (81, "TCP"), (82, None), (82, "SCTP")], 1)
        ports = [
            {"port": port, "name": f"n{port}{kind or 'tcp'}".lower(), **({"protocol": kind} if kind else {})}
            | self.maybe(targetPort=lambda: self.random.choice([8080, "http"]))
            for port, kind in wanted
        ]
        return {"spec": {"ports": ports, **self.maybe(externalIPs=lambda: self.some(["10.0.0.1", "10.0.0.2"]))}}

    def serviceaccount(self) -> dict[str, Any]:
        return self.maybe(
            secrets=lambda: [{"name": n} for n in self.some("abcd")],
            imagePullSecrets=lambda: [{"name": n} for n in self.some("abc")],  # atomic here, keyed in a pod
        )

    def configmap(self) -> dict[str, Any]:
        return {"data": {n: self.text() for n in self.some("abcd")}}


KINDS = {
    "Deployment": ("apps/v1", "apis/apps/v1", "deployments"),
    "StatefulSet": ("apps/v1", "apis/apps/v1", "statefulsets"),
    "CronJob": ("batch/v1", "apis/batch/v1", "cronjobs"),
    "PodTemplate": ("v1", "api/v1", "podtemplates"),
    "Service": ("v1", "api/v1", "services"),
    "ServiceAccount": ("v1", "api/v1", "serviceaccounts"),
    "ConfigMap": ("v1", "api/v1", "configmaps"),
}


def pair(kind: str, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """A base and a patch of a kind, complete but for the namespace."""
    objects = Objects(seed)
    head = {"apiVersion": KINDS[kind][0], "kind": kind, "metadata": {"name": f"m{seed}"}}
    base, patch = (getattr(objects, kind.lower())() for _ in range(2))
    return {**head, **base}, {**head, **patch}


@pytest.mark.parametrize("kind", KINDS)
def test_merging_kubernetes_own_kinds_is_as_the_api_server_does(
    shared_api: ApiServer, namespace: str, kind: str
) -> None:
    api_version, prefix, plural = KINDS[kind]
    shape = SCHEMAS.shape(GroupVersionKind.parse(api_version, kind))
    assert shape is not None
    url = f"/{prefix}/namespaces/{namespace}/{plural}"
    for seed in range(40):
        base, patch = pair(kind, seed)
        apply(shared_api, url, base, "base", dry=False)
        live = apply(shared_api, url, patch, "patch", dry=True)
        assert list(differences(ours(base, patch, shape), live)) == [], f"seed {seed}"


STRATEGIC = "application/strategic-merge-patch+json"
"""kubectl's older merge: the same keys but for ports (containerPort alone) and spread constraints (topologyKey alone),
and an order of its own."""


def test_merging_has_the_items_of_a_strategic_merge_patch(shared_api: ApiServer, namespace: str) -> None:
    shape = SCHEMAS.shape(GroupVersionKind("apps", "v1", "Deployment"))
    assert shape is not None
    url = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    for seed in range(1000, 1040):
        base, patch = (_without_other_keys(body) for body in pair("Deployment", seed))
        apply(shared_api, url, base, "base", dry=False)
        name = base["metadata"]["name"]
        live = shared_api.request("PATCH", f"{url}/{name}", patch, content_type=STRATEGIC, query={"dryRun": "All"})
        mine = ours(base, patch, shape)
        assert list(differences(_sorted(mine, shape), _sorted(live, shape))) == [], f"seed {seed}"


def _without_other_keys(body: dict[str, Any]) -> dict[str, Any]:
    body["spec"]["template"]["spec"].pop("topologySpreadConstraints", None)
    for containers in ("containers", "initContainers"):
        for container in body["spec"]["template"]["spec"].get(containers, ()):
            container.pop("ports", None)
    return body


def _sorted(value: Any, shape: Shape) -> Any:
    """With keyed lists in one order."""
    if isinstance(value, dict):
        return {key: _sorted(child, shape.below(key)) for key, child in value.items()}
    if isinstance(value, list) and shape.kind is not ListKind.ATOMIC:
        items = [_sorted(item, shape.items or Shape()) for item in value]
        return sorted(items, key=lambda item: shape.identify(item) or b"")
    return value


# -- custom resources of the operators -------------------------------------------------------------------------------

VALUE_RULES = frozenset(
    (
        *("x-kubernetes-validations", "x-kubernetes-embedded-resource", "anyOf", "oneOf", "allOf", "not"),
        *("pattern", "format", "minLength", "maxLength", "minimum", "maximum", "multipleOf"),
        *("minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
    )
)


def definitions(shared: Path) -> Iterator[tuple[GroupVersionKind, dict[str, Any]]]:
    """One definition for each version of each kind, under a group of its own, without rules about values."""
    upstream = shared / "upstream"
    for file in sorted([*upstream.glob("*/crds/*.yaml"), *upstream.glob("*/crds-grove/*.yaml")]):
        for body in yaml.load_all(file.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader):
            spec = body["spec"]
            for version in spec["versions"]:
                group = f"{version['name']}.{spec['group']}"
                schema = {"openAPIV3Schema": without_rules(version["schema"]["openAPIV3Schema"])}
                only = {"name": version["name"], "served": True, "storage": True, "schema": schema}
                made = {
                    "apiVersion": body["apiVersion"],
                    "kind": body["kind"],
                    "metadata": {"name": f"{spec['names']['plural']}.{group}"},
                    "spec": {"group": group, "names": spec["names"], "scope": spec["scope"], "versions": [only]},
                }
                made["spec"]["names"].pop("shortNames", None)
                yield GroupVersionKind(spec["group"], version["name"], spec["names"]["kind"]), made


def without_rules(schema: Any) -> Any:
    """The schema without what it says about values; names of fields may be the same words."""
    if not isinstance(schema, dict):
        return schema
    made = {word: value for word, value in schema.items() if word not in VALUE_RULES}
    for word in ("items", "additionalProperties"):
        if word in made:
            made[word] = without_rules(made[word])
    if "properties" in made:
        made["properties"] = {name: without_rules(child) for name, child in made["properties"].items()}
    return made


def has_keyed_list(schema: Any) -> bool:
    if not isinstance(schema, dict):
        return False
    inner = [schema.get("items"), schema.get("additionalProperties"), *schema.get("properties", {}).values()]
    return schema.get("x-kubernetes-list-type") in ("map", "set") or any(map(has_keyed_list, inner))


class Instances:
    """Random values of a structural schema: lists with unique keys, atomic maps with all their keys."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def value(self, schema: Mapping[str, Any], depth: int = 0, *, complete: bool = False) -> Any:
        if "enum" in schema:
            return self.random.choice(schema["enum"])
        if schema.get("x-kubernetes-int-or-string"):
            return self.random.choice([1, "2"])
        match schema.get("type"):
            case "object":
                return self.map(schema, depth, complete=complete)
            case "array":
                return self.list(schema, depth)
            case "boolean":
                return self.random.random() < 0.5
            case "integer" | "number":
                return self.random.randint(1, 4)
        return self.random.choice(["a", "b", "c"])

    def map(self, schema: Mapping[str, Any], depth: int, *, complete: bool) -> dict[str, Any]:
        complete = complete or schema.get("x-kubernetes-map-type") == "atomic"
        properties = schema.get("properties", {})
        required = set(schema.get("required", ()))
        made = {}
        for name, child in properties.items():
            likely = 0.8 if has_keyed_list(child) else max(0.1, 0.4 - depth * 0.05)
            if name in required or complete or self.random.random() < likely:
                made[name] = self.value(child, depth + 1, complete=complete)
        values = schema.get("additionalProperties")
        if isinstance(values, dict):
            names = ["k"] if complete else self.random.sample("klm", self.random.randint(0, 3))
            made |= {name: self.value(values, depth + 1, complete=complete) for name in names}
        return made

    def list(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        items, kind = schema["items"], schema.get("x-kubernetes-list-type")
        made = [self.value(items, depth + 1) for _ in range(self.random.randint(0, 5 if kind else 2))]
        if kind == "map":
            keys = schema["x-kubernetes-list-map-keys"]
            defaults = {key: items["properties"][key].get("default") for key in keys}
            named = [tuple(item.get(key, defaults[key]) for key in keys) for item in made]
        elif kind == "set":
            named = made
        else:
            return made
        return [item for n, item in enumerate(made) if named[n] not in named[:n]]


@pytest.mark.timeout(400)
def test_merging_custom_resources_is_as_the_api_server_does(private_api: Any, shared: Path) -> None:
    api = private_api()
    namespace = api.create_namespace("merge")
    compared = keyed = 0
    for kind, definition in definitions(shared):
        ((_, shape),) = shapes_of_definition(definition)
        assert shape == SCHEMAS.shape(kind), kind
        api.create_crd_objects([copy.deepcopy(definition)])
        spec = definition["spec"]
        schema = spec["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        place = f"/namespaces/{namespace}" if spec["scope"] == "Namespaced" else ""
        url = f"/apis/{spec['group']}/{kind.version}{place}/{spec['names']['plural']}"
        for seed in range(20 if shape.fields else 3):
            head = {
                "apiVersion": f"{spec['group']}/{kind.version}",
                "kind": kind.kind,
                "metadata": {"name": f"m{seed}"},
            }
            instances = Instances(seed)
            base, patch = ({**head, "spec": instances.value(schema)} for _ in range(2))
            apply(api, url, base, "base", dry=False)
            live = apply(api, url, patch, "patch", dry=True)
            assert list(differences(ours(base, patch, shape), live)) == [], f"{kind}, seed {seed}"
            compared += 1
            keyed += ours(base, patch, shape) != ours(base, patch, Shape())
    assert compared > 250
    assert keyed > 120  # pairs where it makes a difference
