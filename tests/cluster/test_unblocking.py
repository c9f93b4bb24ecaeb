"""What stands in the way of an apply, and what is done about it: deciding."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gitops.cluster.errors import ApiError, Cause, ErrorClass
from gitops.cluster.unblocking import may_help, neighbours, remedy

ME = "gitops-x"
Json = dict[str, Any]


def duplicate(field: str) -> ApiError:
    cause = Cause("FieldValueDuplicate", field, 'Duplicate value: "http"')
    return ApiError(ErrorClass.BLOCKED, 422, "Invalid", causes=(cause,))


MISTYPED = ApiError(ErrorClass.BLOCKED, 500, "LiveSchemaMismatch")


def live(spec: Any, *entries: Json, kind: str = "Thing") -> Json:
    metadata = {"name": "a", "namespace": "n", "resourceVersion": "7", "managedFields": list(entries)}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}


def entry(manager: str, spec: Json, operation: str = "Update") -> Json:
    fields = {"f:spec": spec}
    return {"manager": manager, "operation": operation, "apiVersion": "v1", "time": "T", "fieldsV1": fields}


def payload(spec: Any) -> Json:
    return {"apiVersion": "v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "n"}, "spec": spec}


PORT = 'k:{"containerPort":81,"protocol":"TCP"}'
POD = {"f:containers": {'k:{"name":"c"}': {"f:ports": {PORT: {".": {}, "f:containerPort": {}, "f:name": {}}}}}}


def pod(*ports: Json) -> Json:
    return {"containers": [{"name": "other"}, {"name": "c", "ports": list(ports)}]}


def test_a_list_inside_a_list() -> None:
    foreign = {"containerPort": 81, "protocol": "TCP", "name": "http"}
    ours = {"containerPort": 80, "name": "http"}
    wanted = {"containers": [{"name": "c", "ports": [ours]}]}
    found = remedy(
        duplicate("spec.containers[1].ports[1].name"),
        live(pod({"containerPort": 9, "protocol": "TCP"}, foreign), entry("kubectl-edit", POD)),
        payload(wanted),
        manager=ME,
    )
    assert found is not None
    test, change = found.operations
    assert test == {"op": "test", "path": "/metadata/resourceVersion", "value": "7"}
    assert change == {"op": "replace", "path": "/spec/containers/1/ports/1", "value": ours}
    (difference,) = found.differences
    assert (difference.path, difference.manager, difference.operation) == (
        ("spec", "containers", 0, "ports", 0),
        "kubectl-edit",
        "Update",
    )


@pytest.mark.parametrize(
    ("entries", "ports"),
    [
        pytest.param((entry("another", POD, "Apply"),), [{"containerPort": 80, "name": "http"}], id="declared"),
        pytest.param((), [{"containerPort": 80, "name": "http"}], id="nothing tells which container"),
        pytest.param((entry("x", POD),), [{"containerPort": 80, "name": "web"}], id="another name"),
        pytest.param((entry("x", POD),), [{"containerPort": 81, "name": "http"}], id="it is ours"),
    ],
)
def test_what_is_not_taken_back(entries: tuple[Json, ...], ports: list[Json]) -> None:
    there = live(pod({"containerPort": 81, "protocol": "TCP", "name": "http"}), *entries)
    wanted = payload({"containers": [{"name": "c", "ports": ports}]})
    assert remedy(duplicate("spec.containers[1].ports[1].name"), there, wanted, manager=ME) is None


@pytest.mark.parametrize(
    ("there", "wanted", "operations"),
    [
        pytest.param([(8080, "http"), (9, "x")], [(80, "http")], {"/spec/ports/0": 80}, id="it got another number"),
        pytest.param([(80, "http"), (9, "x")], [(80, "http")], {}, id="it is as declared"),
        pytest.param([(8080, "http"), (8081, "http")], [(80, "http")], {}, id="two could be meant"),
        pytest.param([(8080, "web")], [(80, "http")], {}, id="none has the name"),
    ],
)
def test_02_where_managed_fields_were_wiped_the_unique_value_tells_which_item_is_meant(
    there: list[Any], wanted: list[Any], operations: dict[str, int]
) -> None:
    there, wanted = ([{"port": port, "name": name} for port, name in ports] for ports in (there, wanted))
    found = remedy(duplicate("spec.ports[1].name"), live({"ports": there}), payload({"ports": wanted}), manager=ME)
    patches = () if found is None else found.operations[1:]
    assert {patch["path"]: patch["value"]["port"] for patch in patches} == operations
    required = ApiError(
        ErrorClass.BLOCKED, 422, "Invalid", causes=(Cause("FieldValueRequired", "spec.ports[1].name", ""),)
    )
    assert remedy(required, live({"ports": there}), payload({"ports": wanted}), manager=ME) is None


@pytest.mark.parametrize("field", ["", "spec", "spec.ports", "spec.none[0].name", "x[0]", "[0]", "spec.containers[0]"])
def test_a_path_that_leads_nowhere(field: str) -> None:
    assert remedy(duplicate(field), live(pod(), entry("x", POD)), payload(pod()), manager=ME) is None


@pytest.mark.parametrize(
    ("there", "wanted", "paths"),
    [
        ({"a": "1", "b": "2"}, {"a": 1, "b": "2"}, ["/spec/a"]),
        ({"a": 1}, {"a": 2.5}, []),
        ({"a": True}, {"a": 1}, ["/spec/a"]),
        ({"a": {"x/y": "1"}}, {"a": {"x/y": 1}}, ["/spec/a/x~1y"]),
        ({"a": "text"}, {"a": {"b": 1}}, ["/spec/a"]),
        ({"l": [{"name": "b", "v": "1"}, {"name": "a", "v": "2"}]}, {"l": [{"name": "a", "v": 2}]}, ["/spec/l/1/v"]),
        ({"l": ["1", "2"]}, {"l": [1, 2]}, ["/spec/l/0", "/spec/l/1"]),
        ({"l": ["1", "2"]}, {"l": [1]}, []),
        ({"theirs": "1"}, {}, []),
    ],
)
def test_17_leaves_of_another_type_get_the_declared_value(there: Json, wanted: Json, paths: list[str]) -> None:
    found = remedy(MISTYPED, live(there), payload(wanted), manager=ME)
    assert [o["path"] for o in found.operations[1:]] == paths if found is not None else paths == []


def test_secrets_are_hidden_in_what_is_told() -> None:
    wanted = payload({"env": [{"name": "HF_TOKEN", "value": "hf_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}]})
    there = live({"env": [{"name": "HF_TOKEN", "value": 7}]})
    found = remedy(MISTYPED, there, wanted, manager=ME)
    assert found is not None
    assert all(d.masked for d in found.differences)
    assert "hf_" not in str([(d.declared, d.live) for d in found.differences])


def forbidden(*fields: str, more: str = "") -> ApiError:
    causes = [Cause("FieldValueForbidden", field, "may not be specified") for field in fields]
    return ApiError(
        ErrorClass.REFUSED, 422, "Invalid", causes=(*causes, *([Cause(more, "spec.x", "")] if more else []))
    )


ROLLING: Json = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}, "other": 1}
RECREATE: Json = {"strategy": {"type": "Recreate"}}


def test_of_two_fields_that_exclude_each_other_the_undeclared_one_goes() -> None:
    error = forbidden("spec.strategy.rollingUpdate")
    assert may_help(error)
    found = remedy(error, live(ROLLING), payload(RECREATE), manager=ME)
    assert found is not None
    assert found.operations[1:] == ({"op": "replace", "path": "/spec/strategy", "value": {"type": "Recreate"}},)
    assert found.differences == ()


def test_where_the_declared_field_is_named_the_only_map_beside_it_goes() -> None:
    volumes = {"volumes": [{"name": "a"}, {"name": "v", "emptyDir": {}, "other": 1}]}
    wanted = {"volumes": [{"name": "v", "hostPath": {"path": "/x"}}]}
    entries = entry("kubectl-edit", {"f:volumes": {'k:{"name":"v"}': {".": {}}}})
    error = forbidden("spec.volumes[1].hostPath", more="FieldValueNotFound")
    found = remedy(error, live(volumes, entries), payload(wanted), manager=ME)
    assert found is not None
    value = {"name": "v", "other": 1, "hostPath": {"path": "/x"}}
    assert found.operations[1:] == ({"op": "replace", "path": "/spec/volumes/1", "value": value},)


@pytest.mark.parametrize(
    ("error", "wanted", "entries"),
    [
        pytest.param(forbidden("spec.strategy.rollingUpdate"), ROLLING, (), id="both-declared"),
        pytest.param(forbidden("spec.gone.rollingUpdate"), RECREATE, (), id="not-there"),
        pytest.param(forbidden("spec"), RECREATE, (), id="all-of-it"),
        pytest.param(forbidden("spec.strategy.rollingUpdate", more="FieldValueInvalid"), RECREATE, (), id="and-more"),
        pytest.param(
            forbidden("spec.strategy.rollingUpdate"),
            RECREATE,
            (entry("tuner", {"f:strategy": {"f:rollingUpdate": {"f:maxSurge": {}}}}, "Apply"),),
            id="declared-by-another",
        ),
    ],
)
def test_what_excludes_a_declared_field_and_stays(error: ApiError, wanted: Json, entries: tuple[Json, ...]) -> None:
    assert remedy(error, live(ROLLING, *entries), payload(wanted), manager=ME) is None


def test_neighbours_with_our_node_port() -> None:
    def service(name: str, *ports: Any) -> Json:
        return {"metadata": {"name": name, "namespace": "n"}, "spec": {"ports": [{"nodePort": p} for p in ports]}}

    others = [service("a", 30001), service("b", 30001, 30002, 3), service("c"), {"spec": {}}]
    assert neighbours(service("a", 30001, 30002), others) == ["n/b (30001, 30002)"]


names = st.sampled_from(["a", "name", "ports"])
values = st.recursive(
    st.one_of(st.integers(0, 2), st.sampled_from(["x", "1"]), st.booleans(), st.none()),
    lambda inner: st.one_of(st.dictionaries(names, inner, max_size=3), st.lists(inner, max_size=3)),
    max_leaves=10,
)


@given(values, values, st.sampled_from(["spec.ports[1].name", "spec.a[0].ports[1].name", "spec"]))
@example({"a": [0]}, {"a": [0]}, "spec.a[0].ports[1].name")
def test_whatever_is_live_the_patch_fits_it(there: Any, wanted: Any, field: str) -> None:
    tree = {"f:ports": {'k:{"name":"x"}': {".": {}}}, "f:a": {'k:{"name":"x"}': {"f:ports": {'k:{"a":1}': {}}}}}
    for error in (MISTYPED, duplicate(field)):
        found = remedy(error, live(there, entry("x", tree)), payload(wanted), manager=ME)
        for operation in found.operations[1:] if found is not None else ():
            place: Any = live(there)
            for part in operation["path"].split("/")[1:]:
                place = place[int(part)] if isinstance(place, list) else place[part]
