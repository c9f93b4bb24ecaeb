"""What is stripped or rewritten before an apply, on a real API server: same meaning, and no second write."""

import json
import subprocess

import pytest
from controlplane_kit.client import ApiServer

from gitops.manifests.quantities import canonical_quantity, canonical_resources
from gitops.manifests.reading import read_documents
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


def volumes(api: ApiServer, namespace: str, text: str) -> dict:
    """A Deployment with a file mode, read by us from YAML, as the server has it."""
    manifest = f"""\
apiVersion: apps/v1
kind: Deployment
metadata: {{name: modes, namespace: {namespace}}}
spec:
  selector: {{matchLabels: {{a: b}}}}
  template:
    metadata: {{labels: {{a: b}}}}
    spec:
      containers: [{{name: c, image: i}}]
      volumes: [{{name: v, configMap: {{name: m, defaultMode: {text}}}}}]
"""
    (document,) = read_documents(manifest.encode(), file="a.yaml").documents
    return apply(api, document.body)["spec"]["template"]["spec"]["volumes"][0]["configMap"]


@pytest.mark.parametrize("text", ["0644", "0o644", "0x1a4", "420"])
def test_y03_octal_modes_arrive_as_meant(shared_api, namespace, text):
    assert volumes(shared_api, namespace, text)["defaultMode"] == 420


@pytest.mark.parametrize(("text", "why"), [("644", "0 and 0777"), ('"0644"', "expected numeric")])
def test_y03_modes_that_mean_something_else_are_refused_by_the_server(shared_api, namespace, text, why):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        volumes(shared_api, namespace, text)
    assert why in refused.value.stderr


def service(namespace: str, *ports: dict) -> dict:
    metadata = {"name": "dns", "namespace": namespace}
    spec = {"ports": [{"name": f"p{n}", **port} for n, port in enumerate(ports)]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def test_s03_one_port_number_in_two_protocols_is_fine(shared_api, namespace):
    live = apply(shared_api, service(namespace, {"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}))
    assert [p["protocol"] for p in live["spec"]["ports"]] == ["TCP", "UDP"]


def test_s03_the_default_protocol_makes_a_duplicate(shared_api, namespace):
    with pytest.raises(subprocess.CalledProcessError) as refused:
        apply(shared_api, service(namespace, {"port": 53}, {"port": 53, "protocol": "TCP"}))
    assert 'duplicate entries for key [port=53,protocol="TCP"]' in refused.value.stderr
