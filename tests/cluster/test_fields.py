"""Digests and comparison on literal objects, as a 1.34 API server writes their managedFields."""

import copy
import json
from typing import Any

import pytest

from gitops.cluster import fields
from gitops.cluster.comparison import DifferenceKind
from gitops.cluster.values import ABSENT, MASK, MASK_OTHER

OURS = "gitops-main"
LEAF: dict[str, Any] = {}


def entry(tree: dict[str, Any], manager: str = OURS, **more: Any) -> dict[str, Any]:
    found = {
        "manager": manager,
        "operation": "Apply" if manager == OURS else "Update",
        "apiVersion": "apps/v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": tree,
    }
    return {**found, **more}


def spec(**parts: Any) -> dict[str, Any]:
    return {"f:spec": {f"f:{name}": part for name, part in parts.items()}}


def declared(kind: str = "Deployment", **parts: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop", "labels": {"gitops/reconciler": "main"}},
        **parts,
    }


LABELS = {"f:metadata": {"f:labels": {"f:gitops/reconciler": LEAF}}}


def live(payload: dict[str, Any], *entries: dict[str, Any], **parts: Any) -> dict[str, Any]:
    found = copy.deepcopy({**payload, **parts})
    found["metadata"] |= {
        "uid": "u-1",
        "resourceVersion": "7",
        "generation": 1,
        "managedFields": [
            {**e, "fieldsV1": {**LABELS, **e["fieldsV1"]} if e["manager"] == OURS else e["fieldsV1"]} for e in entries
        ],
    }
    return found


def key(**names: Any) -> str:
    return "k:" + json.dumps(names, separators=(",", ":"), sort_keys=True)


def only(comparison: fields.Comparison) -> fields.FieldDifference:
    (difference,) = comparison.differences
    return difference


CONTAINERS = {key(name="a"): {".": LEAF, "f:name": LEAF, "f:image": LEAF}, key(name="b"): {".": LEAF, "f:name": LEAF}}


def two_containers() -> dict[str, Any]:
    return declared(spec={"containers": [{"name": "a", "image": "i:1"}, {"name": "b"}]})


# -- entry digest ----------------------------------------------------------------------------------------------------


def test_the_entry_digest_ignores_time_and_others() -> None:
    payload = declared(spec={"replicas": 2})
    tree = spec(replicas=LEAF)
    one = live(payload, entry(tree))
    other = live(payload, entry(tree, time="2026-05-05T00:00:00Z"), entry(spec(paused=LEAF), "foe"))
    assert fields.entry_digest(one, OURS) == fields.entry_digest(other, OURS)
    assert len(fields.entry_digest(one, OURS) or b"") == 16


def test_the_entry_digest_moves_with_paths_and_version() -> None:
    payload = declared(spec={"replicas": 2})
    base = fields.entry_digest(live(payload, entry(spec(replicas=LEAF))), OURS)
    assert base != fields.entry_digest(live(payload, entry({})), OURS)
    assert base != fields.entry_digest(live(payload, entry(spec(replicas=LEAF), apiVersion="apps/v2")), OURS)


@pytest.mark.parametrize("other", [{"manager": "foe"}, {"operation": "Update"}, {"subresource": "status"}])
def test_only_our_apply_to_the_main_resource_is_ours(other: dict[str, str]) -> None:
    found = live(declared(), {**entry(spec(replicas=LEAF)), **other})
    assert fields.our_entry(found, OURS) is None
    assert fields.entry_digest(found, OURS) is None


# -- values digest ---------------------------------------------------------------------------------------------------


def test_d03_the_values_digest_ignores_what_others_add() -> None:
    payload = two_containers()
    tree = spec(containers=CONTAINERS)
    base = live(payload, entry(tree))
    grown = copy.deepcopy(base)
    grown["spec"]["containers"].insert(0, {"name": "sidecar"})
    grown["spec"]["containers"][1]["tty"] = True
    grown["spec"]["paused"] = True
    grown["status"] = {"replicas": 3}
    assert fields.fingerprint(payload, base, OURS).same_fields(fields.fingerprint(payload, grown, OURS))
    assert fields.compare(payload, grown, OURS).in_sync


def test_fact_1_the_values_digest_sees_the_order_of_our_items() -> None:
    payload = two_containers()
    base = live(payload, entry(spec(containers=CONTAINERS)))
    turned = copy.deepcopy(base)
    turned["spec"]["containers"].reverse()
    assert fields.entry_digest(base, OURS) == fields.entry_digest(turned, OURS)
    assert fields.values_digest(payload, base, OURS) != fields.values_digest(payload, turned, OURS)
    difference = only(fields.compare(payload, turned, OURS))
    assert difference.kind is DifferenceKind.ORDER
    assert difference.path == ("spec", "containers")
    assert (difference.declared, difference.live) == (["[name=a]", "[name=b]"], ["[name=b]", "[name=a]"])


def test_fact_2_the_values_digest_sees_what_admission_rewrote() -> None:
    payload = two_containers()
    base = live(payload, entry(spec(containers=CONTAINERS)))
    rewritten = copy.deepcopy(base)
    rewritten["spec"]["containers"][0]["image"] = "mirror/i:1"
    assert fields.values_digest(payload, base, OURS) != fields.values_digest(payload, rewritten, OURS)
    difference = only(fields.compare(payload, rewritten, OURS))
    assert difference.still_ours
    assert difference.manager == ""


def test_fact_10_a_declared_empty_map_counts_by_presence() -> None:
    payload = declared(spec={"securityContext": {}})
    base = live(payload, entry(spec(securityContext=LEAF)))
    filled = live(payload, entry(spec(securityContext=LEAF)), spec={"securityContext": {"runAsUser": 1}})
    assert fields.values_digest(payload, base, OURS) == fields.values_digest(payload, filled, OURS)
    assert fields.compare(payload, filled, OURS).in_sync


def test_fact_10_an_atomic_empty_map_that_somebody_filled_is_drift() -> None:
    payload = declared(spec={"podSelector": {}})
    found = live(payload, entry({}), entry(spec(podSelector=LEAF), "foe"), spec={"podSelector": {"a": "b"}})
    difference = only(fields.compare(payload, found, OURS))
    assert (difference.manager, difference.live) == ("foe", {"a": "b"})


def test_the_payload_s_preconditions_are_no_values() -> None:
    payload = declared(spec={"replicas": 1})
    base = live(payload, entry(spec(replicas=LEAF)))
    pinned = copy.deepcopy(payload)
    pinned["metadata"] |= {"uid": "u-1", "resourceVersion": "3"}
    assert fields.values_digest(pinned, base, OURS) == fields.values_digest(payload, base, OURS)
    assert fields.compare(pinned, base, OURS).in_sync


# -- ownership -------------------------------------------------------------------------------------------------------


def test_in_sync_is_exact_ownership_and_right_values() -> None:
    payload = two_containers()
    assert fields.compare(payload, live(payload, entry(spec(containers=CONTAINERS))), OURS).in_sync


def test_a_field_that_left_git_is_extra() -> None:
    payload = declared(spec={"replicas": 2})
    found = live(payload, entry(spec(replicas=LEAF, paused=LEAF)))
    comparison = fields.compare(payload, found, OURS)
    assert [str(element) for path in comparison.extra for element in path] == ["spec", "paused"]
    assert not comparison.in_sync
    assert not comparison.differences


def test_an_item_that_left_git_is_extra_once_per_owned_path() -> None:
    payload = declared(spec={"containers": [{"name": "a", "image": "i:1"}]})
    comparison = fields.compare(payload, live(payload, entry(spec(containers=CONTAINERS))), OURS)
    assert ["/".join(map(str, path)) for path in comparison.extra] == [
        "spec/containers/[name=b]",
        "spec/containers/[name=b]/name",
    ]


def test_ownership_lost_with_the_right_value_is_no_difference() -> None:
    payload = declared(spec={"replicas": 2})
    comparison = fields.compare(payload, live(payload, entry({}), entry(spec(replicas=LEAF), "foe")), OURS)
    assert comparison.lost == (("spec", "replicas"),)
    assert not comparison.differences
    assert not comparison.in_sync


def test_fact_7_wiped_managed_fields_are_no_drift_by_themselves() -> None:
    """The server's defaults inside a list of which nobody owns anything must not look like changes."""
    payload = two_containers() | {"roles": [{"kind": "Group"}]}
    found = live(payload)
    found["spec"]["containers"][0]["terminationMessagePath"] = "/dev/termination-log"
    found["roles"][0]["apiGroup"] = "rbac.authorization.k8s.io"
    comparison = fields.compare(payload, found, OURS)
    assert not comparison.owned
    assert not comparison.differences
    assert not comparison.in_sync


def test_fact_19_an_entry_at_another_version_cannot_be_read() -> None:
    payload = declared(spec={"replicas": 2})
    comparison = fields.compare(payload, live(payload, entry(spec(replicas=LEAF), apiVersion="apps/v1beta1")), OURS)
    assert comparison.version_differs
    assert not comparison.in_sync
    assert not comparison.differences
    assert ("spec", "replicas") in comparison.lost
    assert comparison.extra == ()


def test_padding_of_an_atomic_list_is_in_sync_only_for_who_applied_it() -> None:
    payload = declared(subjects=[{"kind": "User", "name": "u"}])
    found = live(payload, entry({"f:subjects": LEAF}))
    found["subjects"][0]["apiGroup"] = "rbac.authorization.k8s.io"
    comparison = fields.compare(payload, found, OURS)
    assert comparison.padded == (("subjects",),)
    assert comparison.in_sync_as_applied
    assert not comparison.in_sync


def test_what_somebody_put_into_an_atomic_map_is_drift() -> None:
    payload = declared(spec={"nodeSelector": {"gpu": "h100"}})
    foe = entry(spec(nodeSelector=LEAF), "foe")
    found = live(payload, entry({}), foe, spec={"nodeSelector": {"gpu": "h100", "zone": "a"}})
    for applied in (False, True):  # every declared value is there, and yet it is not what we applied
        assert only(fields.compare(payload, found, OURS, applied=applied)).path == ("spec", "nodeSelector")


# -- values ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [
        pytest.param({"cpu": "1"}, {"cpu": "1000m"}, True, id="1000m"),
        pytest.param({"cpu": 4}, {"cpu": "4"}, True, id="number-and-text"),
        pytest.param({"cpu": "500m"}, {"cpu": 0.5}, True, id="fraction"),
        pytest.param({"memory": "1Gi"}, {"memory": "1024Mi"}, True, id="binary"),
        pytest.param({"custom": {"nvidia.com/gpu": 1}}, {"custom": {"nvidia.com/gpu": "1"}}, True, id="dynamo-custom"),
        pytest.param({"cpu": "1"}, {"cpu": "2"}, False, id="other"),
    ],
)
def test_s11_equal_quantities_in_resource_lists(ours: Any, theirs: Any, same: bool) -> None:
    payload = declared(spec={"resources": {"limits": ours}})
    limits = {f"f:{n}": {f"f:{m}": LEAF for m in v} if isinstance(v, dict) else LEAF for n, v in ours.items()}
    found = live(payload, entry(spec(resources={"f:limits": limits})), spec={"resources": {"limits": theirs}})
    assert fields.compare(payload, found, OURS).in_sync is same


def test_s11_plain_text_differs_by_its_text() -> None:
    payload = declared(spec={"note": "1000m"})
    found = live(payload, entry(spec(note=LEAF)), spec={"note": "1"})
    assert only(fields.compare(payload, found, OURS)).live == "1"


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [(1, 1.0, True), (True, 1, False), (0, False, False), ("1", 1, False), (1.5, 1.5, True), ("", 0, False)],
)
def test_numbers_compare_by_value_and_types_count(ours: Any, theirs: Any, same: bool) -> None:
    payload = declared(spec={"x": ours})
    assert fields.compare(payload, live(payload, entry(spec(x=LEAF)), spec={"x": theirs}), OURS).in_sync is same


@pytest.mark.parametrize("empty", [{}, {"limits": {}}, False, 0, ""])
def test_s12_s13_what_the_server_leaves_out_while_it_is_ours_is_no_drift(empty: Any) -> None:
    payload = declared(spec={"x": empty})
    node = {"f:limits": LEAF} if empty == {"limits": {}} else LEAF
    assert fields.compare(payload, live(payload, entry(spec(x=node)), spec={}), OURS).in_sync


def test_s12_an_explicit_false_that_somebody_removed_is_drift() -> None:
    payload = declared(spec={"automount": False})
    difference = only(fields.compare(payload, live(payload, entry({}), spec={}), OURS))
    assert difference.kind is DifferenceKind.MISSING
    assert difference.live is ABSENT


def test_fact_12_an_empty_keyed_list_owns_nothing() -> None:
    payload = declared(spec={"env": []})
    foe = entry(spec(env={key(name="x"): {".": LEAF, "f:name": LEAF}}), "foe")
    assert fields.compare(payload, live(payload, entry({}), foe, spec={"env": [{"name": "x"}]}), OURS).in_sync


def test_s21_what_the_server_allocates_is_no_drift() -> None:
    port = {"port": 80, "targetPort": 8080}
    payload = declared("Service", spec={"type": "NodePort", "ports": [port]})
    node = {".": LEAF, "f:port": LEAF, "f:targetPort": LEAF}
    tree = spec(type=LEAF, ports={key(port=80, protocol="TCP"): node})
    allocated = {"type": "NodePort", "clusterIP": "10.0.0.1", "ports": [{**port, "protocol": "TCP", "nodePort": 30001}]}
    assert fields.compare(payload, live(payload, entry(tree), spec=allocated), OURS).in_sync


def test_s03_two_ports_of_one_number_are_matched_by_protocol() -> None:
    payload = declared("Service", spec={"ports": [{"port": 53}, {"port": 53, "protocol": "UDP", "name": "u"}]})
    tree = spec(
        ports={
            key(port=53, protocol="TCP"): {".": LEAF, "f:port": LEAF},
            key(port=53, protocol="UDP"): {".": LEAF, "f:port": LEAF, "f:protocol": LEAF, "f:name": LEAF},
        }
    )
    ports = [{"port": 53, "protocol": "TCP"}, {"port": 53, "protocol": "UDP", "name": "changed"}]
    difference = only(fields.compare(payload, live(payload, entry(tree), spec={"ports": ports}), OURS))
    assert difference.pointer == "spec.ports[port=53,protocol=UDP].name"


def test_fact_15_a_duplicate_item_is_told() -> None:
    payload = declared(spec={"env": [{"name": "x", "value": "1"}, {"name": "y"}]})
    tree = spec(env={key(name="y"): {".": LEAF, "f:name": LEAF}})
    env = [{"name": "x", "value": "1"}, {"name": "x", "value": "2"}, {"name": "y"}]
    difference = only(fields.compare(payload, live(payload, entry(tree), spec={"env": env}), OURS))
    assert difference.kind is DifferenceKind.DUPLICATE
    assert difference.pointer == "spec.env[name=x]"


def test_a_removed_item_is_one_difference() -> None:
    payload = two_containers()
    tree = spec(containers={key(name="b"): CONTAINERS[key(name="b")]})
    difference = only(fields.compare(payload, live(payload, entry(tree), spec={"containers": [{"name": "b"}]}), OURS))
    assert difference.pointer == "spec.containers[name=a]"
    assert difference.declared == {"name": "a", "image": "i:1"}
    assert difference.live is ABSENT


def test_d07_finalizers_of_others_are_no_drift() -> None:
    payload = declared()
    payload["metadata"]["finalizers"] = ["ours/f"]
    found = live(payload, entry({"f:metadata": {**LABELS["f:metadata"], "f:finalizers": {'v:"ours/f"': LEAF}}}))
    found["metadata"]["finalizers"].insert(0, "foregroundDeletion")
    found["metadata"]["annotations"] = {"deployment.kubernetes.io/revision": "1"}
    assert fields.compare(payload, found, OURS).in_sync


def test_s14_status_is_not_compared() -> None:
    payload = declared(spec={"replicas": 1}, status={"conditions": []})
    assert fields.compare(payload, live(payload, entry(spec(replicas=LEAF)), status={"x": 1}), OURS).in_sync


# -- blame -----------------------------------------------------------------------------------------------------------


def changed_replicas(*others: dict[str, Any], ours: dict[str, Any] | None = None) -> fields.FieldDifference:
    payload = declared(spec={"replicas": 2})
    return only(fields.compare(payload, live(payload, ours or entry({}), *others, spec={"replicas": 5}), OURS))


def test_s16_the_owner_of_the_path_is_blamed_with_subresource_and_time() -> None:
    hpa = entry(spec(replicas=LEAF), "kube-controller-manager", subresource="scale", time="2026-02-02T00:00:00Z")
    difference = changed_replicas(entry(spec(paused=LEAF), "kubectl-edit", time="2026-03-03T00:00:00Z"), hpa)
    assert difference.manager == "kube-controller-manager"
    assert (difference.operation, difference.subresource) == ("Update", "scale")
    assert difference.time == "2026-02-02T00:00:00Z"
    assert not difference.inferred


def test_of_several_owners_the_latest_is_blamed() -> None:
    early = entry(spec(replicas=LEAF), "early", time="2026-01-02T00:00:00Z")
    late = entry(spec(replicas=LEAF), "late", time="2026-01-03T00:00:00Z")
    assert changed_replicas(late, early).manager == "late"


def test_a_removed_field_is_blamed_on_the_latest_writer_by_inference() -> None:
    payload = declared(spec={"replicas": 2})
    status = entry({"f:status": LEAF}, "operator", subresource="status", time="2026-04-01T00:00:00Z")
    editor = entry(spec(paused=LEAF), "kubectl-edit", time="2026-03-01T00:00:00Z")
    difference = only(fields.compare(payload, live(payload, entry({}), editor, status, spec={}), OURS))
    assert (difference.manager, difference.inferred) == ("kubectl-edit", True)


def test_who_wrote_before_our_apply_only_did_not_remove_anything() -> None:
    payload = declared(spec={"replicas": 2})
    old = entry(spec(paused=LEAF), "kubectl-create", time="2025-01-01T00:00:00Z")
    assert only(fields.compare(payload, live(payload, entry({}), old, spec={}), OURS)).manager == ""


@pytest.mark.parametrize("name", ["ancient-changes", "before-first-apply"])
def test_fact_16_names_that_the_server_makes_up_are_unknown(name: str) -> None:
    assert changed_replicas(entry(spec(replicas=LEAF), name)).manager == ""


# -- what is shown ---------------------------------------------------------------------------------------------------


def test_x01_secret_values_never_leave() -> None:
    payload = declared("Secret", data={"token": "b25l", "gone": "Mg=="})
    tree = {"f:data": {"f:other": LEAF}}
    found = live(payload, entry(tree), data={"token": "dHdv"})
    comparison = fields.compare(payload, found, OURS)
    assert [(d.declared, d.live, d.masked) for d in comparison.differences] == [
        (MASK, MASK_OTHER, True),
        (MASK, ABSENT, True),
    ]
    for secret in ("b25l", "dHdv", "Mg=="):
        assert secret not in repr(comparison)


def test_x01_what_is_typed_into_an_environment_variable_is_hidden_by_its_name() -> None:
    payload = declared(spec={"env": [{"name": "HF_TOKEN", "value": "declared-one"}, {"name": "MODE", "value": "a"}]})
    items = {key(name=n): {".": LEAF, "f:name": LEAF} for n in ("HF_TOKEN", "MODE")}
    env = [{"name": "HF_TOKEN", "value": "hf_live"}, {"name": "MODE", "value": "b"}]
    comparison = fields.compare(payload, live(payload, entry(spec(env=items)), spec={"env": env}), OURS)
    assert [(d.live, d.masked) for d in comparison.differences] == [(MASK_OTHER, True), ("b", False)]
    assert "hf_live" not in repr(comparison)


def test_secret_data_compares_by_its_bytes() -> None:
    payload = declared("Secret", data={"token": "b25l\n"})
    assert fields.compare(
        payload, live(payload, entry({"f:data": {"f:token": LEAF}}), data={"token": "b25l"}), OURS
    ).in_sync


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (("spec", "components", 0, "replicas"), "spec.components[name=decode].replicas"),
        (("metadata", "labels", "a.b/c"), 'metadata.labels["a.b/c"]'),
        (("spec", "args", 1), "spec.args[1]"),
        (("spec", "ports", 0, "note"), "spec.ports[port=8080,protocol=TCP].note"),
        ((), "(object)"),
    ],
)
def test_paths_are_shown_by_keys(path: tuple[Any, ...], text: str) -> None:
    payload = {
        "metadata": {"labels": {"a.b/c": "d"}},
        "spec": {"components": [{"name": "decode", "replicas": 1}], "args": ["x", "y"], "ports": [{"port": 8080}]},
    }
    tree = spec(args=LEAF, ports={key(port=8080, protocol="TCP"): {".": LEAF}})
    assert fields.describe(path, payload, entry(tree)) == text
