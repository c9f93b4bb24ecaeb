"""What one watch event costs: decode it, look at the digests, and for comparison the full compare.

    python tests/bench/bench_fields.py

Prints microseconds of CPU a call, best of five rounds. The object is a DynamoGraphDeployment of three components.
"""

import time
import timeit
from typing import Any

import msgspec

from gitops.cluster import fields
from gitops.cluster.field_claims import claims, claims_digest
from gitops.model.identity import GroupKind
from gitops.policy.ownership import Ownership

OURS = "gitops-main"
LEAF: dict[str, Any] = {}


def component(name: str) -> dict[str, Any]:
    env = [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(8)]
    container = {
        "name": "main",
        "image": "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.6.1",
        "workingDir": "/workspace",
        "command": ["python3", "-m", "dynamo.vllm"],
        "args": ["--model", "Qwen/Qwen3-0.6B", "--is-decode-worker", "--enforce-eager"],
        "env": env,
        "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"cpu": "4", "memory": "32Gi"}},
    }
    return {"name": name, "replicas": 2, "podTemplate": {"spec": {"containers": [container]}}}


def owned(value: Any) -> dict[str, Any]:
    """The fieldsV1 of a value in which lists of named maps are keyed and other lists atomic."""
    if isinstance(value, dict):
        return {f"f:{name}": owned(sub) for name, sub in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return {f'k:{{"name":"{item["name"]}"}}': {".": LEAF, **owned(item)} for item in value}
    return LEAF


def example() -> tuple[bytes, bytes]:
    labels = {"gitops/reconciler": "main", "applyset.kubernetes.io/part-of": "applyset-x-v1"}
    metadata = {"name": "llama", "namespace": "fn-llama", "labels": labels}
    spec = {"backendFramework": "vllm", "components": [component(n) for n in ("frontend", "prefill", "decode")]}
    payload = {"apiVersion": "nvidia.com/v1beta1", "kind": "DynamoGraphDeployment", "metadata": metadata, "spec": spec}
    entries = [
        {
            "manager": OURS,
            "operation": "Apply",
            "apiVersion": "nvidia.com/v1beta1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": owned(labels)}, "f:spec": owned(spec)},
        },
        {
            "manager": "manager",
            "operation": "Update",
            "subresource": "status",
            "apiVersion": "nvidia.com/v1beta1",
            "time": "2026-01-01T00:00:05Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:status": {".": LEAF, "f:state": LEAF, "f:conditions": LEAF}},
        },
    ]
    more = {"uid": "6f0c", "resourceVersion": "1000", "generation": 3, "managedFields": entries}
    live = {**payload, "metadata": {**metadata, **more}, "status": {"state": "successful", "conditions": []}}
    return msgspec.json.encode(payload), msgspec.json.encode(live)


SCALER = {
    "manager": "kube-controller-manager",
    "operation": "Update",
    "subresource": "scale",
    "apiVersion": "nvidia.com/v1beta1",
    "time": "2026-01-01T00:00:05Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:replicas": LEAF}},
}
GRAPH = GroupKind("nvidia.com", "DynamoGraphDeployment")


def claim(live: dict[str, Any], *, handable: bool = False) -> Any:
    table = Ownership.shipped()
    return claims_digest(live, OURS, kind=GRAPH, table=table, default="take", handable=handable)


def measure(name: str, call: Any, times: int = 2000) -> None:
    best = min(timeit.repeat(call, number=times, repeat=5, timer=time.process_time)) / times
    print(f"{name:<44} {best * 1e6:8.1f} µs")


def main() -> None:
    payload_text, live_text = example()
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    payload, live = decode(payload_text), decode(live_text)
    assert fields.compare(payload, live, OURS).in_sync
    print(f"payload {len(payload_text)} bytes, live object {len(live_text)} bytes")
    measure("decode the event", lambda: decode(live_text))
    measure("decode the payload", lambda: decode(payload_text))
    measure("entry digest", lambda: fields.entry_digest(live, OURS))
    measure("fingerprint (both digests)", lambda: fields.fingerprint(payload, live, OURS))
    measure("an unchanged event, all in all", lambda: fields.fingerprint(decode(payload_text), decode(live_text), OURS))
    measure("who has a claim: nobody may", lambda: claim(live))
    measure("who has a claim: a handover is possible", lambda: claim(live, handable=True))
    scaled = decode(live_text)
    scaled["metadata"]["managedFields"].append(SCALER)
    measure("who has a claim: an autoscaler", lambda: claim(scaled))
    table = Ownership.shipped()
    named = {
        "table": table,
        "default": "take",
        "scaled": True,
        "handed": [(("spec", "components", 1, "replicas"), "x")],
    }
    measure("claims, when that moved", lambda: claims(payload, scaled, OURS, **named), times=500)
    measure("compare", lambda: fields.compare(payload, live, OURS), times=200)


if __name__ == "__main__":
    main()
