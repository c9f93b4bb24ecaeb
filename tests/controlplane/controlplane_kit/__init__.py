"""A real Kubernetes control plane, a real git server and a fault proxy, for tests, the demo and the benchmarks.

- binaries: etcd, kube-apiserver and their company, found or built from pinned Go modules;
- controlplane: start, pause, kill and stop one on this machine;
- gitserver: git's own HTTP backend on a loopback port;
- faultproxy: a proxy before an API server that counts requests and fails on demand;
- plugin: the pytest fixtures over all of it (tests/conftest.py loads it).

Nothing here imports the product, so the product's tests cannot lean on what they test.
"""

from controlplane_kit.binaries import Binaries, BinariesMissing, build, locate
from controlplane_kit.client import ApiFailure, ApiServer
from controlplane_kit.controlplane import ControlPlane, StartFailed

__all__ = [
    "ApiFailure",
    "ApiServer",
    "Binaries",
    "BinariesMissing",
    "ControlPlane",
    "StartFailed",
    "build",
    "locate",
]
