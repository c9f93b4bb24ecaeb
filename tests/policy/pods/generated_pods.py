"""Pods at random that an API server takes but for Pod Security: every control is broken, kept and left out."""

from __future__ import annotations

import random
from typing import Any

_PROFILES = [
    {"type": "RuntimeDefault"},
    {"type": "Unconfined"},
    {"type": "Localhost", "localhostProfile": "profiles/a.json"},
]
_SELINUX: list[dict[str, str]] = [
    {"type": "container_t"},
    {"type": "container_engine_t"},
    {"type": "spc_t"},
    {"level": "s0:c1"},
    {"user": "sysadm_u"},
    {"role": "sysadm_r", "type": "container_t"},
]
_CAPABILITIES: list[dict[str, list[str]]] = [
    {"drop": ["ALL"]},
    {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
    {"drop": ["ALL"], "add": ["NET_BIND_SERVICE", "IPC_LOCK"]},
    {"drop": ["NET_RAW"], "add": ["CHOWN"]},
    {"add": ["SYS_PTRACE"]},
    {},
]
_SYSCTLS = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_notsent_lowat",
    "kernel.msgmax",
]
_CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
_VOLUMES: list[dict[str, Any]] = [
    {},
    {"emptyDir": {}},
    {"configMap": {"name": "a"}},
    {"secret": {"secretName": "a"}},
    {"downwardAPI": {}},
    {"projected": {"sources": [{"configMap": {"name": "a"}}]}},
    {"csi": {"driver": "a.example"}},
    {"persistentVolumeClaim": {"claimName": "a"}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": _CLAIM}}},
    {"hostPath": {"path": "/var/run"}},
    {"nfs": {"server": "a.example", "path": "/a"}},
    {"iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.2001-04.com.example:a", "lun": 0}},
    {"gcePersistentDisk": {"pdName": "a"}},
    {"awsElasticBlockStore": {"volumeID": "a"}},
    {"flexVolume": {"driver": "example/a"}},
    {"cephfs": {"monitors": ["10.0.0.1"]}},
    {"glusterfs": {"endpoints": "a", "path": "a"}},
    {"azureFile": {"secretName": "a", "shareName": "a"}},
    {"portworxVolume": {"volumeID": "a"}},
    {"fc": {"targetWWNs": ["50060e801049cfd1"], "lun": 0}},
]
_ACTIONS: list[dict[str, Any]] = [
    {"httpGet": {"port": 80}},
    {"httpGet": {"port": 80, "host": "10.0.0.1"}},
    {"httpGet": {"port": 80, "host": ""}},
]


class PodMaker:
    """One seed, one sequence of pods. `care` is how likely a field is kept as restricted wants it."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._care = 0.5

    def template(self) -> dict[str, Any]:
        """metadata and spec of a pod."""
        self._care = self._random.choice([0.2, 0.7, 0.95, 1.0])
        if self._random.random() < 0.05:
            return self._windows()
        spec: dict[str, Any] = {"containers": [self._container(f"c{i}") for i in range(self._random.randint(1, 2))]}
        if self._random.random() < 0.3:
            spec["initContainers"] = [self._container("init", probes=False)]
        self._pod_fields(spec)
        metadata: dict[str, Any] = {"labels": {"app": "a"}}
        if self._careless():
            metadata["annotations"] = self._random.choice(
                [
                    {"container.apparmor.security.beta.kubernetes.io/c0": "unconfined"},
                    {"container.apparmor.security.beta.kubernetes.io/c0": "runtime/default"},
                    {"container.apparmor.security.beta.kubernetes.io/c0": "localhost/a"},
                    {"seccomp.security.alpha.kubernetes.io/pod": "unconfined"},
                    {"container.seccomp.security.alpha.kubernetes.io/c0": "unconfined"},
                    {"container.seccomp.security.alpha.kubernetes.io/other": "unconfined"},
                    {"container.seccomp.security.alpha.kubernetes.io/c0": "localhost/a"},
                ]
            )
        return {"metadata": metadata, "spec": spec}

    def _careless(self) -> bool:
        return self._random.random() > self._care

    def _windows(self) -> dict[str, Any]:
        container = {"name": "c0", "image": "a"}
        if self._careless():
            container["securityContext"] = {"runAsNonRoot": self._random.random() < 0.5}  # type: ignore[assignment]
        spec: dict[str, Any] = {"os": {"name": "windows"}, "containers": [container]}
        if self._careless():
            spec |= {"hostNetwork": True, "securityContext": {"windowsOptions": {"hostProcess": True}}}
        return {"metadata": {"labels": {"app": "a"}}, "spec": spec}

    def _pod_fields(self, spec: dict[str, Any]) -> None:
        if self._careless():
            spec["hostUsers"] = self._random.random() < 0.5
        if spec.get("hostUsers") is not False:
            for field in ("hostNetwork", "hostPID", "hostIPC"):
                if self._careless():
                    spec[field] = self._random.random() < 0.4
        else:
            for container in spec["containers"]:
                if self._careless():
                    container.setdefault("securityContext", {})["procMount"] = "Unmasked"
        kinds = _VOLUMES[:9] if not self._careless() else [*_VOLUMES, *[_VOLUMES[9]] * 9]
        count = self._random.randint(0, 2)
        spec["volumes"] = [{"name": f"v{i}", **self._random.choice(kinds)} for i in range(count)]
        context: dict[str, Any] = {}
        if not self._careless() and self._random.random() < 0.7:
            context |= {"runAsNonRoot": True, "seccompProfile": _PROFILES[0]}
        if self._careless():
            context["runAsNonRoot"] = self._random.random() < 0.5
        if self._careless():
            context["seccompProfile"] = self._random.choice(_PROFILES)
        if self._careless():
            names = self._random.sample(_SYSCTLS, k=self._random.randint(0, 2))
            context["sysctls"] = [{"name": name, "value": "1"} for name in names]
        if self._careless():
            context["windowsOptions"] = {"hostProcess": False}
        self._common(context)
        if context:
            spec["securityContext"] = context

    def _common(self, context: dict[str, Any]) -> None:
        if self._careless():
            context["runAsUser"] = self._random.choice([0, 1000])
        if self._careless():
            context["seLinuxOptions"] = self._random.choice(_SELINUX)
        if self._careless():
            context["appArmorProfile"] = self._random.choice(_PROFILES)

    def _container(self, name: str, *, probes: bool = True) -> dict[str, Any]:
        container: dict[str, Any] = {"name": name, "image": "a"}
        context: dict[str, Any] = {}
        if not self._careless():
            context |= {"allowPrivilegeEscalation": False, "capabilities": _CAPABILITIES[0]}
        if self._random.random() < 0.5 and not self._careless():
            context |= {"runAsNonRoot": True, "seccompProfile": _PROFILES[0]}
        if self._careless():
            context["capabilities"] = self._random.choice(_CAPABILITIES)
        if self._careless():
            context["allowPrivilegeEscalation"] = self._random.random() < 0.5
        if self._careless():
            context["privileged"] = self._random.random() < 0.5 and context.get("allowPrivilegeEscalation") is not False
        if self._careless():
            context["runAsNonRoot"] = self._random.random() < 0.5
        if self._careless():
            context["seccompProfile"] = self._random.choice(_PROFILES)
        if self._careless():
            context["procMount"] = "Default"
        self._common(context)
        if context or self._careless():
            container["securityContext"] = context
        if self._careless():
            port = self._random.randint(8000, 9000)
            container["ports"] = [{"containerPort": port, "hostPort": self._random.choice([0, port])}]
        if probes and self._careless():
            probe = self._random.choice(["livenessProbe", "readinessProbe", "startupProbe"])
            container[probe] = self._random.choice([*_ACTIONS, {"tcpSocket": {"port": 80, "host": "10.0.0.1"}}])
            container["lifecycle"] = {"preStop": self._random.choice(_ACTIONS)}
        return container
