"""Each control of the Pod Security Standards: what breaks it and where, what keeps it, from which version to which."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitops.manifests.lines import Path, dotted
from gitops.model.identity import GroupVersionKind
from gitops.policy.pods.levels import NOTHING, OLDEST_SERVER, PREFIX, Applies, PodSecurity, Standard, bad_labels
from gitops.policy.pods.places import pod_parts
from gitops.policy.pods.standards import NEWEST, Level, Violation, violations
from gitops.policy.validation import refusals

POD = GroupVersionKind("", "v1", "Pod")
BASELINE, RESTRICTED = Level.BASELINE, Level.RESTRICTED


def found(pod: Any, level: Level, version: int = NEWEST) -> set[tuple[str, str]]:
    """(control, path) of what a level forbids of a pod."""
    standard = Standard(level, version, version)
    return {(v.control, dotted(v.path)) for v in every(pod) if standard.applies(v) is Applies.YES}


def every(pod: Any) -> list[Violation]:
    return [v for part in pod_parts(pod, POD, ()) for v in violations(part)]


def with_spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def with_container(field: str = "containers", **fields: Any) -> dict[str, Any]:
    return with_spec(**{field: [{"name": "main", "image": "a", **fields}]})


def with_context(**fields: Any) -> dict[str, Any]:
    return with_container(securityContext=fields)


def pod_context(**fields: Any) -> dict[str, Any]:
    return with_spec(securityContext=fields, containers=[])


def annotated(key: str, value: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {key: value}}, **with_container()}


C = "spec.containers[0]"
CTX = f"{C}.securityContext"
APPARMOR = "container.apparmor.security.beta.kubernetes.io/main"

BROKEN = [
    ("host namespaces", BASELINE, with_spec(hostNetwork=True), "spec.hostNetwork"),
    ("host namespaces", BASELINE, with_spec(hostPID=True), "spec.hostPID"),
    ("host namespaces", RESTRICTED, with_spec(hostIPC=True), "spec.hostIPC"),
    ("privileged", BASELINE, with_context(privileged=True), f"{CTX}.privileged"),
    (
        "hostProcess",
        BASELINE,
        pod_context(windowsOptions={"hostProcess": True}),
        "spec.securityContext.windowsOptions.hostProcess",
    ),
    ("hostProcess", BASELINE, with_context(windowsOptions={"hostProcess": True}), f"{CTX}.windowsOptions.hostProcess"),
    ("hostPort", BASELINE, with_container(ports=[{"containerPort": 1}, {"hostPort": 2}]), f"{C}.ports[1].hostPort"),
    (
        "non-default capabilities",
        BASELINE,
        with_context(capabilities={"add": ["CHOWN", "IPC_LOCK"]}),
        f"{CTX}.capabilities.add[1]",
    ),
    (
        "unrestricted capabilities",
        RESTRICTED,
        with_context(capabilities={"add": ["CHOWN"], "drop": ["ALL"]}),
        f"{CTX}.capabilities.add[0]",
    ),
    (
        "unrestricted capabilities",
        RESTRICTED,
        with_context(capabilities={"drop": ["NET_RAW"]}),
        f"{CTX}.capabilities.drop",
    ),
    ("unrestricted capabilities", RESTRICTED, with_container(), f"{CTX}.capabilities.drop"),
    (
        "hostPath volumes",
        BASELINE,
        with_spec(volumes=[{"name": "a", "hostPath": {"path": "/"}}]),
        "spec.volumes[0].hostPath",
    ),
    (
        "restricted volume types",
        RESTRICTED,
        with_spec(volumes=[{"name": "a", "hostPath": {"path": "/"}}]),
        "spec.volumes[0].hostPath",
    ),
    (
        "restricted volume types",
        RESTRICTED,
        with_spec(volumes=[{"name": "a"}, {"name": "b", "nfs": {}}]),
        "spec.volumes[1].nfs",
    ),
    (
        "forbidden AppArmor profile",
        BASELINE,
        with_context(appArmorProfile={"type": "Unconfined"}),
        f"{CTX}.appArmorProfile.type",
    ),
    (
        "forbidden AppArmor profile",
        BASELINE,
        pod_context(appArmorProfile={"type": "x"}),
        "spec.securityContext.appArmorProfile.type",
    ),
    ("forbidden AppArmor profile", BASELINE, annotated(APPARMOR, "unconfined"), f"metadata.annotations.{APPARMOR}"),
    ("seLinuxOptions", BASELINE, with_context(seLinuxOptions={"type": "spc_t"}), f"{CTX}.seLinuxOptions.type"),
    ("seLinuxOptions", BASELINE, pod_context(seLinuxOptions={"user": "a"}), "spec.securityContext.seLinuxOptions.user"),
    ("seLinuxOptions", BASELINE, with_context(seLinuxOptions={"role": "a"}), f"{CTX}.seLinuxOptions.role"),
    ("procMount", BASELINE, with_context(procMount="Unmasked"), f"{CTX}.procMount"),
    ("seccompProfile", BASELINE, with_context(seccompProfile={"type": "Unconfined"}), f"{CTX}.seccompProfile.type"),
    (
        "seccompProfile",
        BASELINE,
        pod_context(seccompProfile={"type": "Unconfined"}),
        "spec.securityContext.seccompProfile.type",
    ),
    ("seccompProfile", RESTRICTED, with_container(), f"{CTX}.seccompProfile"),
    (
        "forbidden sysctls",
        BASELINE,
        pod_context(sysctls=[{"name": "kernel.msgmax"}]),
        "spec.securityContext.sysctls[0].name",
    ),
    (
        "probe or lifecycle host",
        BASELINE,
        with_container(livenessProbe={"httpGet": {"host": "a"}}),
        f"{C}.livenessProbe.httpGet.host",
    ),
    (
        "probe or lifecycle host",
        BASELINE,
        with_container(readinessProbe={"tcpSocket": {"host": "a"}}),
        f"{C}.readinessProbe.tcpSocket.host",
    ),
    (
        "probe or lifecycle host",
        BASELINE,
        with_container(startupProbe={"httpGet": {"host": "a"}}),
        f"{C}.startupProbe.httpGet.host",
    ),
    (
        "probe or lifecycle host",
        BASELINE,
        with_container(lifecycle={"preStop": {"httpGet": {"host": "a"}}}),
        f"{C}.lifecycle.preStop.httpGet.host",
    ),
    (
        "probe or lifecycle host",
        BASELINE,
        with_container(lifecycle={"postStart": {"tcpSocket": {"host": "a"}}}),
        f"{C}.lifecycle.postStart.tcpSocket.host",
    ),
    (
        "allowPrivilegeEscalation != false",
        RESTRICTED,
        with_context(allowPrivilegeEscalation=True),
        f"{CTX}.allowPrivilegeEscalation",
    ),
    ("allowPrivilegeEscalation != false", RESTRICTED, with_container(), f"{CTX}.allowPrivilegeEscalation"),
    ("runAsNonRoot != true", RESTRICTED, pod_context(runAsNonRoot=False), "spec.securityContext.runAsNonRoot"),
    ("runAsNonRoot != true", RESTRICTED, with_context(runAsNonRoot=False), f"{CTX}.runAsNonRoot"),
    ("runAsNonRoot != true", RESTRICTED, with_container(), f"{CTX}.runAsNonRoot"),
    ("runAsUser=0", RESTRICTED, pod_context(runAsUser=0), "spec.securityContext.runAsUser"),
    ("runAsUser=0", RESTRICTED, with_context(runAsUser=0), f"{CTX}.runAsUser"),
]


@pytest.mark.parametrize(
    ("control", "level", "pod", "path"), BROKEN, ids=lambda value: value if isinstance(value, str) else ""
)
def test_broken(control: str, level: Level, pod: dict[str, Any], path: str) -> None:
    assert (control, path) in found(pod, level)


GOOD = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}
POD_GOOD = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}

KEPT = [
    with_spec(hostNetwork=False, hostPID=False, hostIPC=False),
    with_context(privileged=False),
    pod_context(windowsOptions={"hostProcess": False}),
    with_container(ports=[{"containerPort": 1, "hostPort": 0}]),
    with_context(capabilities={"add": ["CHOWN"]}),
    with_spec(volumes=[{"name": "a"}, {"name": "b", "nfs": {}}, {"name": "c", "hostPath": None}]),
    with_context(appArmorProfile={"type": "Localhost", "localhostProfile": "a"}),
    annotated(APPARMOR, "localhost/a"),
    annotated(APPARMOR, ""),
    with_context(seLinuxOptions={"type": "container_t", "level": "s0", "user": ""}),
    with_context(procMount="Default"),
    pod_context(seccompProfile={"type": "Localhost"}),
    pod_context(sysctls=[{"name": "net.ipv4.tcp_rmem"}]),
    with_container(livenessProbe={"httpGet": {"host": "", "port": 1}}, lifecycle={"preStop": {"exec": {}}}),
    with_context(runAsUser=0, runAsNonRoot=False, allowPrivilegeEscalation=True),  # for restricted alone
]


@pytest.mark.parametrize("pod", KEPT)
def test_kept_by_baseline(pod: dict[str, Any]) -> None:
    assert found(pod, BASELINE) == set()


RESTRICTED_KEPT = [
    with_spec(
        securityContext=POD_GOOD, containers=[{"securityContext": GOOD}], initContainers=[{"securityContext": GOOD}]
    ),
    with_spec(containers=[{"securityContext": {**GOOD, **POD_GOOD}}]),
    # What the pod says for all, a container may say otherwise where that is allowed too.
    with_spec(
        securityContext=POD_GOOD,
        containers=[{"securityContext": {**GOOD, "runAsUser": 7, "seccompProfile": {"type": "Localhost"}}}],
    ),
    with_spec(
        securityContext=POD_GOOD,
        containers=[],
        volumes=[
            {"name": "a", kind: {}}
            for kind in (
                "configMap",
                "csi",
                "downwardAPI",
                "emptyDir",
                "ephemeral",
                "image",
                "persistentVolumeClaim",
                "projected",
                "secret",
            )
        ],
    ),
    with_spec(os={"name": "windows"}, securityContext={"runAsNonRoot": True}, containers=[{"name": "a"}]),
]


@pytest.mark.parametrize("pod", RESTRICTED_KEPT)
def test_kept_by_restricted(pod: dict[str, Any]) -> None:
    assert found(pod, RESTRICTED) == set()
    assert found(pod, RESTRICTED, version=34) == set()


@pytest.mark.parametrize("field", ["initContainers", "containers", "ephemeralContainers"])
def test_every_kind_of_container_counts(field: str) -> None:
    pod = with_container(field, securityContext={"privileged": True})
    assert found(pod, BASELINE) == {("privileged", f"spec.{field}[0].securityContext.privileged")}


def test_a_container_may_not_take_back_what_the_pod_says() -> None:
    pod = with_spec(securityContext=POD_GOOD, containers=[{"securityContext": {**GOOD, "runAsNonRoot": False}}])
    assert found(pod, RESTRICTED) == {("runAsNonRoot != true", f"{CTX}.runAsNonRoot")}


VERSIONS = [
    (with_container(livenessProbe={"httpGet": {"host": "a"}}), BASELINE, range(34, NEWEST + 1)),
    (pod_context(sysctls=[{"name": "net.ipv4.ip_local_reserved_ports"}]), BASELINE, range(27)),
    (pod_context(sysctls=[{"name": "net.ipv4.tcp_fin_timeout"}]), BASELINE, range(29)),
    (pod_context(sysctls=[{"name": "net.ipv4.tcp_wmem"}]), BASELINE, range(32)),
    (pod_context(sysctls=[{"name": "net.ipv4.tcp_notsent_lowat"}]), BASELINE, range(37)),
    (pod_context(seLinuxOptions={"type": "container_engine_t"}), BASELINE, range(31)),
    (pod_context(seccompProfile={"type": "Unconfined"}), BASELINE, range(19, NEWEST + 1)),
    (annotated("seccomp.security.alpha.kubernetes.io/pod", "unconfined"), BASELINE, range(19)),
    (annotated("container.seccomp.security.alpha.kubernetes.io/main", "x"), BASELINE, range(19)),
    (annotated("container.seccomp.security.alpha.kubernetes.io/other", "x"), BASELINE, range(0)),
    (pod_context(runAsUser=0), RESTRICTED, range(23, NEWEST + 1)),
    ({"spec": {"hostUsers": False, "securityContext": {"runAsUser": 0}}}, RESTRICTED, range(23, 35)),
    ({"spec": {"hostUsers": False, "securityContext": {"runAsNonRoot": False}}}, RESTRICTED, range(35)),
    (
        {"spec": {"hostUsers": False, "containers": [{"securityContext": {"procMount": "Unmasked"}}]}},
        BASELINE,
        range(35),
    ),
]


@pytest.mark.parametrize(("pod", "level", "versions"), VERSIONS)
def test_versions(pod: dict[str, Any], level: Level, versions: range) -> None:
    assert [version for version in range(NEWEST + 1) if found(pod, level, version)] == list(versions)


WINDOWS = {"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}, "containers": [{"name": "a"}]}


@pytest.mark.parametrize(
    ("control", "versions"),
    [
        ("allowPrivilegeEscalation != false", range(8, 25)),
        ("unrestricted capabilities", range(22, 25)),
        ("seccompProfile", range(19, 25)),
    ],
)
def test_windows_need_not_say_what_its_nodes_do_not_know(control: str, versions: range) -> None:
    asked = {version for version in range(NEWEST + 1) if control in dict(found({"spec": WINDOWS}, RESTRICTED, version))}
    assert asked == set(versions)


def test_capabilities_of_restricted_take_the_place_of_baselines() -> None:
    pod = with_context(capabilities={"add": ["IPC_LOCK"], "drop": ["ALL"]})
    names = [{control for control, _ in found(pod, RESTRICTED, version) if "capab" in control} for version in (21, 22)]
    assert names == [{"non-default capabilities"}, {"unrestricted capabilities"}]


def test_what_the_pod_denies_is_said_once() -> None:
    pod = with_spec(securityContext={"runAsNonRoot": False}, containers=[{"name": "a"}, {"name": "b"}])
    paths = [path for control, path in found(pod, RESTRICTED) if control == "runAsNonRoot != true"]
    assert paths == ["spec.securityContext.runAsNonRoot"]


def test_procmount_in_a_user_namespace_stays_forbidden_by_restricted() -> None:
    pod = {"spec": {"hostUsers": False, "containers": [{"securityContext": {"procMount": "Unmasked"}}]}}
    assert ("procMount", f"{CTX}.procMount") in found(pod, RESTRICTED)


# -- levels -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "enforce"),
    [
        ({}, NOTHING),
        ({"enforce": "privileged"}, NOTHING),
        ({"enforce": "baseline"}, Standard(BASELINE, OLDEST_SERVER, NEWEST)),
        ({"enforce": "restricted", "enforce-version": "latest"}, Standard(RESTRICTED, OLDEST_SERVER, NEWEST)),
        ({"enforce": "restricted", "enforce-version": "v1.25"}, Standard(RESTRICTED, 25, 25)),
        ({"enforce": "restricted", "enforce-version": "v1.99"}, Standard(RESTRICTED, OLDEST_SERVER, NEWEST)),
        ({"enforce-version": "v1.25"}, NOTHING),
    ],
)
def test_levels_of_labels(labels: dict[str, str], enforce: Standard) -> None:
    assert PodSecurity.of({PREFIX + key: value for key, value in labels.items()}) == PodSecurity(enforce)


@pytest.mark.parametrize(
    ("version", "server", "bounds"),
    [
        ("latest", 34, (34, 34)),
        ("latest", 99, (NEWEST, NEWEST)),
        ("v1.30", 34, (30, 30)),
        ("v1.36", 34, (34, 34)),
    ],
)
def test_levels_on_a_server_whose_version_is_known(version: str, server: int, bounds: tuple[int, int]) -> None:
    labels = {PREFIX + "enforce": "baseline", PREFIX + "enforce-version": version}
    assert PodSecurity.of(labels, server).enforce == Standard(BASELINE, *bounds)


def test_warn_is_a_level_of_its_own() -> None:
    labels = {PREFIX + "enforce": "baseline", PREFIX + "warn": "restricted", PREFIX + "warn-version": "v1.30"}
    assert PodSecurity.of(labels) == PodSecurity(Standard(BASELINE), Standard(RESTRICTED, 30, 30))


def test_what_only_some_supported_versions_forbid_is_told_apart() -> None:
    latest = Standard(BASELINE)
    verdicts = {v.control: latest.applies(v) for v in every(with_container(livenessProbe={"httpGet": {"host": "a"}}))}
    assert verdicts["probe or lifecycle host"] is Applies.SOME_VERSIONS
    assert verdicts["seccompProfile"] is Applies.NO
    assert [latest.applies(v) for v in every(with_spec(hostIPC=True))] == [Applies.YES]
    allowed_since_the_newest = pod_context(sysctls=[{"name": "net.ipv4.tcp_notsent_lowat"}])
    assert [latest.applies(v) for v in every(allowed_since_the_newest)] == [Applies.SOME_VERSIONS]


@pytest.mark.parametrize(("version", "verdict"), [(31, Applies.YES), (32, Applies.NO)])
def test_a_version_is_either_before_a_change_or_not(version: int, verdict: Applies) -> None:
    standard = Standard(BASELINE, version, version)
    assert [standard.applies(v) for v in every(pod_context(sysctls=[{"name": "net.ipv4.tcp_rmem"}]))] == [verdict]


@pytest.mark.parametrize(
    "labels",
    [{}, {"enforce": "baseline", "enforce-version": "v1.0", "audit": "restricted"}, {"warn-version": "latest"}],
)
def test_good_labels(labels: dict[str, str]) -> None:
    assert list(bad_labels({PREFIX + key: value for key, value in labels.items()})) == []


# -- hostile shapes ---------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
CONTAINER = {
    "name": "main",
    "image": "a",
    "ports": [{"hostPort": 1}],
    "securityContext": {
        "capabilities": {"add": ["CHOWN"], "drop": ["ALL"]},
        "procMount": "Default",
        "seccompProfile": {"type": "Localhost"},
        "appArmorProfile": {"type": "Localhost"},
        "seLinuxOptions": {"type": "a", "user": "b"},
        "windowsOptions": {"hostProcess": True},
        "runAsUser": 0,
    },
    "livenessProbe": {"httpGet": {"host": "a"}},
    "lifecycle": {"preStop": {"tcpSocket": {"host": "a"}}},
}
FULL = {
    "metadata": {"annotations": {APPARMOR: "a", "seccomp.security.alpha.kubernetes.io/pod": "a"}},
    "spec": {
        "os": {"name": "linux"},
        "hostUsers": True,
        "securityContext": {"sysctls": [{"name": "a"}], "seccompProfile": {"type": "a"}},
        "containers": [CONTAINER],
        "volumes": [{"name": "a", "projected": {"sources": [{"secret": {}}]}}, {"hostPath": {}}],
    },
}


def places(value: Any, path: Path = ()) -> list[Path]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, child in inner for place in places(child, (*path, key)))]


def with_at(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    changed = {key: with_at(child, path[1:], new) if key == path[0] else child for key, child in pairs}
    return changed if isinstance(value, dict) else list(changed.values())


@given(st.sampled_from(places(FULL)), JSON)
def test_any_shape_anywhere_is_judged_without_raising(place: Path, value: Any) -> None:
    pod = with_at(FULL, place, value)
    parts = [(part, tuple(violations(part))) for part in pod_parts(pod, POD, ())] if isinstance(pod, dict) else []
    assert all(isinstance(v.path, tuple) for _, found in parts for v in found)
    assert all(len(refusal) == 3 for refusal in refusals(pod, POD, parts, ["/spec/containers/*/name"]))


@pytest.mark.parametrize(
    "spec",
    [5, [], {"containers": {}}, {"containers": [None, 5]}, {"volumes": [None]}, {"securityContext": []},
     {"containers": [{"securityContext": 5, "ports": {}, "livenessProbe": [], "lifecycle": {"preStop": 5}}]},
     {"containers": [{"securityContext": {"capabilities": {"add": "ALL", "drop": 5}}}]},
     {"containers": [{"securityContext": {"capabilities": {"add": [{}, None, ["x"]]}}}]},
     {"securityContext": {"sysctls": [{"name": {}}], "seLinuxOptions": {"type": []}, "seccompProfile": 5}},
     {"os": 5, "hostUsers": {}}],
)  # fmt: skip
def test_hostile_shapes(spec: Any) -> None:
    assert isinstance(found({"spec": spec, "metadata": 5}, RESTRICTED), set)
