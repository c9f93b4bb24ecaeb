"""The kit itself: servers start, are shared, can be killed, and never outlive their test run."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from controlplane_kit import ApiFailure, ApiServer
from controlplane_kit.plugin import PrivateApi


def test_shared_api_serves_a_namespace_per_test(shared_api: ApiServer, namespace: str) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": {"k": "v"}}
    shared_api.request("POST", f"/api/v1/namespaces/{namespace}/configmaps", body)
    assert shared_api.kubectl("-n", namespace, "get", "cm", "one", "-o", "jsonpath={.data.k}") == "v"
    assert shared_api.get(f"/api/v1/namespaces/{namespace}/configmaps/two") is None


def test_a_user_has_no_rights_of_its_own(shared_api: ApiServer, namespace: str) -> None:
    config = shared_api.kubeconfig_for("nobody")
    with pytest.raises(subprocess.CalledProcessError) as refused:
        shared_api.kubectl(f"--kubeconfig={config}", "-n", namespace, "get", "configmaps")
    assert 'User "nobody" cannot list resource' in refused.value.stderr


def test_create_crds_waits_until_the_kind_is_served(shared_api: ApiServer, tmp_path: Path) -> None:
    file = tmp_path / "crd.yaml"
    file.write_text(
        textwrap.dedent("""\
        apiVersion: apiextensions.k8s.io/v1
        kind: CustomResourceDefinition
        metadata: {name: widgets.kit.example.com}
        spec:
          group: kit.example.com
          names: {kind: Widget, plural: widgets, singular: widget}
          scope: Namespaced
          versions:
            - name: v1
              served: true
              storage: true
              schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
        """)
    )
    assert shared_api.create_crds(file) == ["widgets.kit.example.com"]
    body = {"apiVersion": "kit.example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    shared_api.request("POST", "/apis/kit.example.com/v1/namespaces/default/widgets", body)


def test_private_api_can_be_killed_paused_and_restarted(private_api: PrivateApi) -> None:
    plane = private_api()
    print(f"ready after {plane.started_in:.1f} s")
    plane.create_namespace("kept")
    plane.kill_apiserver()
    with pytest.raises(OSError, match="refused"):
        plane.get("/readyz")
    plane.start_apiserver()
    assert plane.get("/api/v1/namespaces/kept")
    plane.pause_apiserver()
    with pytest.raises(TimeoutError):
        plane.request("GET", "/readyz", timeout=0.3)
    plane.resume_apiserver()
    assert plane.request("GET", "/readyz") == "ok"


def test_full_api_runs_pods_and_collects_garbage(full_api: ApiServer, full_namespace: str) -> None:
    base = f"/apis/apps/v1/namespaces/{full_namespace}/deployments"
    container = {"name": "c", "image": "example/gpu:1", "resources": {"limits": {"nvidia.com/gpu": "1"}}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [container]}},
        },
    }
    full_api.request("POST", base, body)
    full_api.wait(lambda: full_api.get(f"{base}/d")["status"].get("readyReplicas") == 2, "two ready pods")
    full_api.request("DELETE", f"{base}/d", query={"propagationPolicy": "Background"})
    pods = f"/api/v1/namespaces/{full_namespace}/pods"
    full_api.wait(lambda: not full_api.get(pods)["items"], "the pods to be collected")


def test_errors_carry_the_servers_words(shared_api: ApiServer) -> None:
    with pytest.raises(ApiFailure, match=r"namespaces.*not found") as failure:
        shared_api.request("DELETE", "/api/v1/namespaces/nowhere")
    assert failure.value.status == 404


def test_servers_die_with_the_process_that_owns_them(shared_api: ApiServer, tmp_path: Path) -> None:
    """Even when that dies by SIGKILL, which runs no handler in it."""
    program = textwrap.dedent("""\
        import sys, time
        from pathlib import Path
        from controlplane_kit import ControlPlane
        plane = ControlPlane(Path(sys.argv[1])).start()
        print(*plane.process_ids().values(), flush=True)
        time.sleep(600)
    """)
    kit = str(Path(__file__).parent)
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "api")],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": kit, "KUBEBUILDER_ASSETS": str(shared_api.binaries.folder)},
    ) as owner:
        assert owner.stdout is not None
        pids = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(pids) == 2
        owner.kill()
    shared_api.wait(lambda: not any(_alive(pid) for pid in pids), "the servers to die", timeout=10)
    shared_api.wait(lambda: not (tmp_path / "api" / "etcd").exists(), "their data to be removed", timeout=10)


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"
