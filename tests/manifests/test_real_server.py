"""What is stripped or rewritten before an apply, on a real API server: same meaning, and no second write."""

import json

import pytest
from controlplane_kit.client import ApiServer

from gitops.manifests.quantities import canonical_quantity, canonical_resources
from gitops.manifests.sanitizing import prepare_body

pytestmark = pytest.mark.controlplane

SPECS = {
    "deny": {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": []},
    "both": {"podSelector": {"matchLabels": {}}, "policyTypes": ["Ingress", "Egress"], "ingress": [], "egress": []},
    "default-types": {"podSelector": {"matchExpressions": []}, "egress": [], "policyTypes": []},
    "rules": {
        "podSelector": {"matchLabels": {"a": "b"}, "matchExpressions": []},
        "ingress": [
            {},
            {"from": [], "ports": []},
            {"from": [{"podSelector": {}}, {"namespaceSelector": {"matchLabels": {}}}]},
        ],
        "egress": [{"to": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": []}}], "ports": [{"port": 1}]}, {"to": []}],
    },
}


def apply(api: ApiServer, body: dict) -> dict:
    arguments = ["apply", "--server-side", "--field-manager=test", "--force-conflicts", "-o", "json", "-f", "-"]
    return json.loads(api.kubectl(*arguments, stdin=json.dumps(body)))


@pytest.mark.parametrize("name", SPECS)
def test_network_policies_keep_their_meaning_and_are_written_once(shared_api, namespace, name):
    body = {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": namespace},
        "spec": SPECS[name],
    }
    raw = {**body, "metadata": {"name": f"{name}-raw", "namespace": namespace}}
    as_written = json.loads(shared_api.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(raw)))
    prepared, notes = prepare_body(body)
    assert notes
    first = apply(shared_api, prepared)
    assert first["spec"] == as_written["spec"]
    second = apply(shared_api, prepared)
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


QUANTITIES = [
    1,
    0.5,
    "0.5",
    "1000m",
    "1500m",
    "1.500",
    "1.0",
    "2e3",
    "2E3",
    "0.1",
    "010",
    "+3",
    "1024Mi",
    "1.5Gi",
    "1Ki",
    "3k",
]


def test_s11_quantities_of_built_in_kinds_come_back_as_we_send_them(shared_api, namespace):
    containers = [
        {"name": f"c{n}", "image": "i", "resources": {"limits": {"cpu": quantity}}}
        for n, quantity in enumerate(QUANTITIES)
    ]
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": containers}},
        },
    }
    sent = canonical_resources(body)["spec"]["template"]["spec"]["containers"]
    live = apply(shared_api, body)["spec"]["template"]["spec"]["containers"]
    assert [c["resources"]["limits"]["cpu"] for c in live] == [canonical_quantity(q) for q in QUANTITIES]
    assert [c["resources"]["limits"] for c in sent] == [c["resources"]["limits"] for c in live]
