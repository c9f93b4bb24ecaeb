"""What the API server's Go code checks of the simplest of its own kinds, in full, and of all of them, in part.

The published schemas of these kinds have types only. Kinds that are not in `COMPLETE` are UNVERIFIED at best. Source:
kubernetes, pkg/apis/core/validation/validation.go, and what decoding JSON into Go types refuses.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from gitops.manifests.canonical import same_json
from gitops.manifests.lines import Path
from gitops.model.identity import GroupVersionKind
from gitops.policy.schemas.metadata import metadata_problems
from gitops.policy.verdicts import Problem

Objects = Mapping[str, Any]
Check = Callable[[Objects, Objects | None], Iterator[Problem]]

_RULE = "core"
_MOST_BYTES = 1 << 20
_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}")
_FINALIZERS = frozenset({"foregroundDeletion", "orphan", "kubernetes"})
_TIMES = ("creationTimestamp", "deletionTimestamp")

_SUBDOMAINS = frozenset(
    {
        *("ConfigMap", "Secret", "ServiceAccount", "Pod", "PersistentVolumeClaim", "PersistentVolume", "LimitRange"),
        *("ResourceQuota", "PodTemplate", "ReplicationController", "Deployment.apps", "StatefulSet.apps"),
        *("DaemonSet.apps", "ReplicaSet.apps", "Job.batch", "CronJob.batch", "NetworkPolicy.networking.k8s.io"),
        *("Ingress.networking.k8s.io", "HorizontalPodAutoscaler.autoscaling", "PodDisruptionBudget.policy"),
        *("PriorityClass.scheduling.k8s.io", "StorageClass.storage.k8s.io"),
    }
)
_LABELS = frozenset({"Namespace", "Service"})


def common_problems(gvk: GroupVersionKind, body: Objects, live: Objects | None) -> Iterator[Problem]:
    """Of the metadata of any kind of Kubernetes; what a name has to be is known for some."""
    kind = str(gvk.group_kind)
    name = "subdomain" if kind in _SUBDOMAINS else "label" if kind in _LABELS else "segment"
    known = None if live is None else live.get("metadata") or {}
    return metadata_problems(body.get("metadata") or {}, name=name, live=known)


def complete(gvk: GroupVersionKind) -> Check | None:
    """All that the server checks of the kind beyond types and common_problems(); None where that is not known."""
    return _COMPLETE.get(str(gvk)) if gvk.group == "" else None


def undecided(body: Objects) -> Iterator[str]:
    """Fields that some kinds reset before they look at them, and whose decoding is not followed here."""
    metadata = body.get("metadata") or {}
    for field in _TIMES:
        if metadata.get(field) is not None:
            yield f"metadata.{field} is decoded as a time"
    if (metadata.get("generation") or 0) < 0:
        yield "metadata.generation is less than 0"


def _config_map(new: Objects, live: Objects | None) -> Iterator[Problem]:
    data, binary = new.get("data") or {}, new.get("binaryData") or {}
    for key in data:
        if key in binary:
            yield Problem(("data", key), "duplicate of key present in binaryData", _RULE)
    decoded = yield from _decoded(binary, ("binaryData",))
    yield from _keys(data, ("data",))
    yield from _keys(binary, ("binaryData",))
    if sum(len((text or "").encode("utf-8", "surrogatepass")) for text in data.values()) + decoded > _MOST_BYTES:
        yield Problem((), f"Too long: may not be more than {_MOST_BYTES} bytes", _RULE)
    yield from _immutable(new, live, ("data", "binaryData"))
    yield from _finalizers(new)


def _secret(new: Objects, live: Objects | None) -> Iterator[Problem]:
    texts = {
        key: base64.b64encode((text or "").encode()).decode() for key, text in (new.get("stringData") or {}).items()
    }
    data = {**(new.get("data") or {}), **texts}
    size = yield from _decoded(data, ("data",))
    yield from _keys(data, ("data",))
    if size > _MOST_BYTES:
        yield Problem(("data",), f"Too long: may not be more than {_MOST_BYTES} bytes", _RULE)
    yield from _typed_secret(new, data)
    if live is not None and (new.get("type") or "Opaque") != (live.get("type") or "Opaque") and new.get("type"):
        yield Problem(("type",), "field is immutable", _RULE)
    yield from _immutable({**new, "data": data}, live, ("data",))
    yield from _finalizers(new)


_NEEDED = {
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
}


def _typed_secret(new: Objects, data: Mapping[str, Any]) -> Iterator[Problem]:
    """What the type of a Secret promises."""
    kind = new.get("type") or "Opaque"
    for key in _NEEDED.get(kind, ()):
        if key not in data:
            yield Problem(("data", key), "Required value", "required")
        elif kind != "kubernetes.io/tls" and not _is_json_map(data[key]):
            yield Problem(("data", key), "must be a JSON object", _RULE)
    if kind == "kubernetes.io/basic-auth" and not {"username", "password"} & data.keys():
        yield Problem(("data", "username"), "Required value: username or password", "required")
    if kind == "kubernetes.io/ssh-auth" and not data.get("ssh-privatekey"):
        yield Problem(("data", "ssh-privatekey"), "Required value", "required")
    name = "kubernetes.io/service-account.name"
    if kind == "kubernetes.io/service-account-token" and not (new["metadata"].get("annotations") or {}).get(name):
        yield Problem(("metadata", "annotations", name), "Required value", "required")


def _is_json_map(text: str | None) -> bool:
    try:
        found = json.loads(base64.b64decode(text or ""), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return False
    return found is None or isinstance(found, dict)


def _refuse(constant: str) -> None:
    raise ValueError("NaN and the infinities are no JSON")


def _service_account(new: Objects, live: Objects | None) -> Iterator[Problem]:
    return _finalizers(new)


def _namespace(new: Objects, live: Objects | None) -> Iterator[Problem]:
    yield from _finalizers(new)
    if live is None:
        yield from _finalizers({"metadata": new.get("spec") or {}}, ("spec", "finalizers"))


_COMPLETE: Mapping[str, Check] = {
    "v1 ConfigMap": _config_map,
    "v1 Secret": _secret,
    "v1 ServiceAccount": _service_account,
    "v1 Namespace": _namespace,
}


def _keys(data: Mapping[str, Any], path: Path) -> Iterator[Problem]:
    for key in data:
        if not _KEY.fullmatch(key) or key == "." or key.startswith(".."):
            yield Problem(
                (*path, key), "a valid config key must consist of alphanumeric characters, '-', '_' or '.'", _RULE
            )


def _decoded(data: Mapping[str, Any], path: Path) -> Generator[Problem, None, int]:
    """Yields what is not base64, and returns the bytes of all the rest."""
    size = 0
    for key, text in data.items():
        try:
            size += len(base64.b64decode(re.sub(r"[\r\n]", "", text or ""), validate=True))
        except (binascii.Error, ValueError):
            yield Problem((*path, key), "illegal base64 data", _RULE)
    return size


def _immutable(new: Objects, live: Objects | None, fields: tuple[str, ...]) -> Iterator[Problem]:
    if live is None or not live.get("immutable"):
        return
    if not new.get("immutable"):
        yield Problem(("immutable",), "field is immutable when `immutable` is set", _RULE)
    for field in fields:
        if not same_json(new.get(field) or {}, live.get(field) or {}):
            yield Problem((field,), "field is immutable when `immutable` is set", _RULE)


def _finalizers(body: Objects, path: Path = ("metadata", "finalizers")) -> Iterator[Problem]:
    for finalizer in (body.get("metadata") or {}).get("finalizers") or ():
        if finalizer and "/" not in finalizer and finalizer not in _FINALIZERS:
            yield Problem(path, "name is neither a standard finalizer name nor is it fully qualified", _RULE)
