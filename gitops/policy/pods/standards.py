"""Kubernetes' Pod Security Standards: what a pod writes, or leaves out, that baseline or restricted does not allow.

From the Kubernetes documentation ("Pod Security Standards") and the API server's admission plugin
(k8s.io/pod-security-admission), whose names of controls are used; tests compare every control with a real API server.
A rule may hold for some versions of the standards only: numbers are those of Kubernetes 1.N.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from gitops.manifests.lines import Path
from gitops.policy.pods.places import At, PodPart, as_map, maps_of

NEWEST = 37
"""The last version of the standards that is known here."""

_ALWAYS = NEWEST + 1


class Level(enum.StrEnum):
    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


_BOTH = frozenset({Level.BASELINE, Level.RESTRICTED})
_BASELINE = frozenset({Level.BASELINE})
_RESTRICTED = frozenset({Level.RESTRICTED})


@dataclass(frozen=True, slots=True)
class Violation:
    """One place of an object that breaks a control of these levels, in versions from `since` until before `until`.

    `missing`: a field is not written that restricted requires. `message` follows the path and shows no text values.
    """

    control: str
    path: Path
    message: str
    levels: frozenset[Level] = _BOTH
    since: int = 0
    until: int = _ALWAYS
    missing: bool = False


def violations(part: PodPart) -> Iterator[Violation]:
    """All violations of a pod under any level and version, sorted by nothing; see levels.py for what applies."""
    for control in _CONTROLS:
        for found in control(part):
            yield found if part.scalar is None else replace(found, path=part.scalar)


# -- parts of a pod ----------------------------------------------------------------------------------------------------


def _below(at: At, field: str) -> At | None:
    """A map inside another; None when it is not written."""
    path, holder = at
    return ((*path, field), as_map(holder[field])) if holder.get(field) is not None else None


def _in_user_namespace(part: PodPart) -> bool:
    return part.spec[1].get("hostUsers") is False


def _windows_until(part: PodPart) -> int:
    """Since 1.25 Windows pods need not write what their nodes do not know."""
    return 25 if as_map(part.spec[1].get("os")).get("name") == "windows" else _ALWAYS


def _typed(at: At, field: str, allowed: frozenset[str]) -> Path | None:
    """The path of a profile's type when it is none of those allowed."""
    profile = _below(at, field)
    if profile is None or _text(profile[1].get("type")) in allowed:
        return None
    return (*profile[0], "type")


# -- baseline ----------------------------------------------------------------------------------------------------------

_PROFILES = frozenset({"RuntimeDefault", "Localhost"})
_APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"
_SECCOMP_VALUES = frozenset({"runtime/default", "docker/default"})
_DEFAULT_CAPABILITIES = frozenset(
    {
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    }
)
_RESTRICTED_VOLUMES = frozenset(
    {
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    }
)
_SELINUX_TYPES = {"": 0, "container_t": 0, "container_init_t": 0, "container_kvm_t": 0, "container_engine_t": 31}
"""Types with the version that first allows them."""

_SYSCTLS = {
    "kernel.shm_rmid_forced": 0,
    "net.ipv4.ip_local_port_range": 0,
    "net.ipv4.ip_unprivileged_port_start": 0,
    "net.ipv4.ping_group_range": 0,
    "net.ipv4.tcp_syncookies": 0,
    "net.ipv4.ip_local_reserved_ports": 27,
    "net.ipv4.tcp_fin_timeout": 29,
    "net.ipv4.tcp_keepalive_intvl": 29,
    "net.ipv4.tcp_keepalive_probes": 29,
    "net.ipv4.tcp_keepalive_time": 29,
    "net.ipv4.tcp_rmem": 32,
    "net.ipv4.tcp_wmem": 32,
    "net.ipv4.tcp_notsent_lowat": 37,
    "net.ipv4.tcp_slow_start_after_idle": 37,
}
"""Sysctls with the version that first allows them."""


def _host_namespaces(part: PodPart) -> Iterator[Violation]:
    path, spec = part.spec
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field) is True:
            yield Violation("host namespaces", (*path, field), "is true")


def _privileged(part: PodPart) -> Iterator[Violation]:
    for path, context in part.contexts:
        if context.get("privileged") is True:
            yield Violation("privileged", (*path, "privileged"), "is true")


def _host_process(part: PodPart) -> Iterator[Violation]:
    for context in (part.context, *part.contexts):
        options = _below(context, "windowsOptions")
        if options is not None and options[1].get("hostProcess") is True:
            yield Violation("hostProcess", (*options[0], "hostProcess"), "is true")


def _host_ports(part: PodPart) -> Iterator[Violation]:
    for path, container in part.containers:
        for at, port in maps_of((*path, "ports"), container.get("ports")):
            if port.get("hostPort"):
                yield Violation("hostPort", (*at, "hostPort"), "opens a port of the node")


def _capabilities(part: PodPart) -> Iterator[Violation]:
    """Restricted has a list of its own since 1.22, which takes the place of baseline's."""
    until = _windows_until(part)
    for path, context in part.contexts:
        written = as_map(context.get("capabilities"))
        added, dropped = (value if isinstance(value, list) else [] for value in map(written.get, ("add", "drop")))
        for position, name in enumerate(added):
            at = (*path, "capabilities", "add", position)
            if _text(name) not in _DEFAULT_CAPABILITIES:
                message = "is not among the capabilities that containers have by default"
                yield Violation("non-default capabilities", at, message, _BASELINE)
                yield Violation("non-default capabilities", at, message, _RESTRICTED, until=22)
            if name != "NET_BIND_SERVICE":
                message = "is a capability other than NET_BIND_SERVICE"
                yield Violation("unrestricted capabilities", at, message, _RESTRICTED, 22, until)
        if "ALL" not in dropped:
            at = (*path, "capabilities", "drop")
            message = "does not name ALL"
            yield Violation("unrestricted capabilities", at, message, _RESTRICTED, 22, until, not dropped)


def _volumes(part: PodPart) -> Iterator[Violation]:
    for path, volume in part.volumes:
        sources = [field for field, value in volume.items() if value is not None and field != "name"]
        if "hostPath" in sources:
            yield Violation("hostPath volumes", (*path, "hostPath"), "is a path of the node", _BASELINE)
        if sources and not _RESTRICTED_VOLUMES.intersection(sources):
            message = "is not among the types of volumes that are allowed"
            yield Violation("restricted volume types", (*path, sources[0]), message, _RESTRICTED)


def _app_armor(part: PodPart) -> Iterator[Violation]:
    message = "is neither RuntimeDefault nor Localhost"
    for context in (part.context, *part.contexts):
        if (path := _typed(context, "appArmorProfile", _PROFILES)) is not None:
            yield Violation("forbidden AppArmor profile", path, message)
    path, annotations = part.annotations
    for key, value in annotations.items():
        allowed = value in ("", "runtime/default") or _text(value).startswith("localhost/")
        if key.startswith(_APPARMOR) and not allowed:
            message = "is neither runtime/default nor a localhost profile"
            yield Violation("forbidden AppArmor profile", (*path, key), message)


def _se_linux(part: PodPart) -> Iterator[Violation]:
    for context in (part.context, *part.contexts):
        options = _below(context, "seLinuxOptions")
        if options is None:
            continue
        path, written = options
        until = _SELINUX_TYPES.get(_text(written.get("type")), _ALWAYS)
        if until:
            yield Violation("seLinuxOptions", (*path, "type"), "is not among the types allowed", until=until)
        for field in ("user", "role"):
            if written.get(field):
                yield Violation("seLinuxOptions", (*path, field), "must not be set")


def _proc_mount(part: PodPart) -> Iterator[Violation]:
    baseline_until = 35 if _in_user_namespace(part) else _ALWAYS
    for path, context in part.contexts:
        if context.get("procMount") not in (None, "Default"):
            at, message = (*path, "procMount"), "is not Default"
            yield Violation("procMount", at, message, _BASELINE, until=baseline_until)
            yield Violation("procMount", at, message, _RESTRICTED)


def _seccomp(part: PodPart) -> Iterator[Violation]:
    """Written profiles, and since 1.19 for restricted those that nobody wrote. Before that annotations counted."""
    control, message = "seccompProfile", "is neither RuntimeDefault nor Localhost"
    pod = _below(part.context, "seccompProfile")
    for holder in (part.context, *part.contexts):
        if (at := _typed(holder, "seccompProfile", _PROFILES)) is not None:
            yield Violation(control, at, message, since=19)
    for path, context in part.contexts:
        if pod is None and context.get("seccompProfile") is None:
            at, until = (*path, "seccompProfile"), _windows_until(part)
            yield Violation(control, at, "is not set", _RESTRICTED, 19, until, missing=True)
    path, annotations = part.annotations
    keys = {_SECCOMP_POD, *(f"{_SECCOMP_CONTAINER}{container.get('name')}" for _, container in part.containers)}
    for key in sorted(keys & annotations.keys()):
        value = _text(annotations[key])
        if value not in _SECCOMP_VALUES and not value.startswith("localhost/"):
            message = "is neither runtime/default nor a localhost profile"
            yield Violation(control, (*path, key), message, until=19)


def _sysctls(part: PodPart) -> Iterator[Violation]:
    path, context = part.context
    for at, sysctl in maps_of((*path, "sysctls"), context.get("sysctls")):
        until = _SYSCTLS.get(_text(sysctl.get("name")), _ALWAYS)
        if until:
            yield Violation("forbidden sysctls", (*at, "name"), "is not among the safe sysctls", until=until)


def _hosts_of_handlers(part: PodPart) -> Iterator[Violation]:
    for at in part.containers:
        for handler in _handlers(at):
            for kind in ("httpGet", "tcpSocket"):
                action = _below(handler, kind)
                if action is not None and action[1].get("host"):
                    message = "names another host than the pod"
                    yield Violation("probe or lifecycle host", (*action[0], "host"), message, since=34)


def _handlers(container: At) -> Iterator[At]:
    """Probes and lifecycle hooks that are written."""
    hooks = _below(container, "lifecycle")
    places: list[tuple[At, str]] = [(container, field) for field in ("livenessProbe", "readinessProbe", "startupProbe")]
    places += [(hooks, field) for field in ("postStart", "preStop")] if hooks is not None else []
    for at, field in places:
        if (found := _below(at, field)) is not None:
            yield found


# -- restricted --------------------------------------------------------------------------------------------------------


def _escalation(part: PodPart) -> Iterator[Violation]:
    for path, context in part.contexts:
        value = context.get("allowPrivilegeEscalation")
        if value is not False:
            message = "is not false" if value is None else "is true"
            at, until = (*path, "allowPrivilegeEscalation"), _windows_until(part)
            yield Violation("allowPrivilegeEscalation != false", at, message, _RESTRICTED, 8, until, value is None)


def _non_root(part: PodPart) -> Iterator[Violation]:
    until = 35 if _in_user_namespace(part) else _ALWAYS
    control = "runAsNonRoot != true"
    for path, context in (part.context, *part.contexts):
        if context.get("runAsNonRoot") is False:
            yield Violation(control, (*path, "runAsNonRoot"), "is false", _RESTRICTED, until=until)
    if part.context[1].get("runAsNonRoot") is None:
        for path, context in part.contexts:
            if context.get("runAsNonRoot") is None:
                at = (*path, "runAsNonRoot")
                yield Violation(control, at, "is not true", _RESTRICTED, until=until, missing=True)


def _root_user(part: PodPart) -> Iterator[Violation]:
    until = 35 if _in_user_namespace(part) else _ALWAYS
    for path, context in (part.context, *part.contexts):
        value = context.get("runAsUser")
        if value == 0 and value is not False:
            yield Violation("runAsUser=0", (*path, "runAsUser"), "is 0", _RESTRICTED, 23, until)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


_CONTROLS: tuple[Callable[[PodPart], Iterator[Violation]], ...] = (
    _host_namespaces,
    _privileged,
    _host_process,
    _host_ports,
    _capabilities,
    _volumes,
    _app_armor,
    _se_linux,
    _proc_mount,
    _seccomp,
    _sysctls,
    _hosts_of_handlers,
    _escalation,
    _non_root,
    _root_user,
)
