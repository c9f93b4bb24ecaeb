"""Roles and bindings of a real API server: read whole or not at all, and understood as its authorizer does."""

from __future__ import annotations

import asyncio
import itertools
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from controlplane_kit.client import ApiServer
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import Answer, on
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import Objects
from gitops.cluster.rights import LiveRights, read_refused, read_rights
from gitops.model.identity import GroupVersionKind
from gitops.model.operators import OperatorType
from gitops.policy.rbac.gate import judge_accounts
from gitops.policy.rbac.resolving import grants_of, parts_of, rules_of
from gitops.policy.rbac.reviewing import shipped_rights
from gitops.policy.rbac.roles import Account, RbacObjects, Source

Connect = Callable[..., Awaitable[Connection]]
RBAC = "/apis/rbac.authorization.k8s.io/v1"


def create(api: ApiServer, kind: str, name: str, *, namespace: str = "", **body: Any) -> dict[str, Any]:
    metadata = {"name": name, "labels": body.pop("labels", {})} | ({"namespace": namespace} if namespace else {})
    place = f"/namespaces/{namespace}" if namespace else ""
    full = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": metadata, **body}
    return dict(api.request("POST", f"{RBAC}{place}/{kind.lower()}s", full))


def bind(api: ApiServer, name: str, role: str, *subjects: Any, namespace: str = "", kind: str = "ClusterRole") -> Any:
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}
    own = "RoleBinding" if namespace else "ClusterRoleBinding"
    return create(api, own, name, namespace=namespace, roleRef=reference, subjects=[*subjects])


def account(api: ApiServer, namespace: str, name: str, labels: Mapping[str, str] = {}) -> Account:
    body = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "labels": labels}}
    api.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", body)
    return Account(namespace, name)


def subject(of: Account) -> dict[str, str]:
    return {"kind": "ServiceAccount", "namespace": of.namespace, "name": of.name}


def operator(**more: Any) -> OperatorType:
    kinds = [{"group": "example.com", "version": "v1", "kind": "Thing", "resource": "things"}]
    head = {"apiVersion": "gitops/v1alpha1", "kind": "OperatorType", "metadata": {"name": "x"}}
    return OperatorType.model_validate({**head, "spec": {"clusterAttribute": "X", "kinds": kinds, **more}})


def of_accounts(*wanted: dict[str, str]) -> OperatorType:
    return operator(rbac={"serviceAccounts": [*wanted]})


def of_deployments(selector: str) -> OperatorType:
    return operator(detection={"deployments": [{"selector": selector, "container": "manager"}]})


@pytest.fixture
def objects(connection: Connection) -> Objects:
    return Objects(connection, Discovery(connection))


async def test_an_account_without_bindings_has_what_everybody_has_and_passes(
    objects: Objects, shared_api: ApiServer, namespace: str
) -> None:
    own = account(shared_api, namespace, namespace)
    live = await read_rights(objects, [of_accounts({"name": own.name})])
    assert isinstance(live, LiveRights)
    assert live.accounts == {"x": (own,)}
    bound = {grant.role.ref.name for grant in grants_of([own], live.objects).grants}
    assert {"system:basic-user", "system:discovery", "system:public-info-viewer"} <= bound
    judgement = judge_accounts([own], live.objects, shipped_rights(), live=True)
    assert (judgement.violations, judgement.reviews, judgement.notes) == ((), (), ())


async def test_a_wildcard_on_the_cluster_refuses_the_type_that_it_is_bound_to(
    objects: Objects, shared_api: ApiServer, namespace: str
) -> None:
    bad = account(shared_api, namespace, f"{namespace}-bad")
    account(shared_api, namespace, f"{namespace}-good")
    rules = [{"verbs": ["get"], "apiGroups": [""], "resources": ["*"]}]
    create(shared_api, "Role", "wide", namespace=namespace, rules=rules)
    bind(shared_api, "wide", "wide", subject(bad), namespace=namespace, kind="Role")
    message = f"GO4411: Role.rbac.authorization.k8s.io {namespace}/wide rule 1, in {namespace}: `*` in resources"
    assert await read_refused(objects, [of_accounts({"name": bad.name})]) == {"x": message}
    assert await read_refused(objects, [of_accounts({"name": f"{namespace}-good"})]) == {}
    assert await read_refused(objects, [of_accounts({"name": f"{namespace}-absent"})]) == {}


@pytest.mark.parametrize(
    ("own", "container", "name"),
    [({"serviceAccountName": "manager"}, "manager", "manager"), ({}, "manager", "default"), ({}, "other", None)],
)
async def test_deployments_tell_the_accounts_wherever_they_are(
    objects: Objects, shared_api: ApiServer, namespace: str, own: dict[str, str], container: str, name: str | None
) -> None:
    labels = {"app": namespace}
    pod = {"metadata": {"labels": labels}, "spec": {**own, "containers": [{"name": container, "image": "x"}]}}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "operator", "labels": labels},
        "spec": {"selector": {"matchLabels": labels}, "template": pod},
    }
    shared_api.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", body)
    live = await read_rights(objects, [of_deployments(f"app={namespace}")])
    assert isinstance(live, LiveRights)
    assert live.accounts == {"x": () if name is None else (Account(namespace, name),)}


async def test_accounts_are_found_by_label_and_name(objects: Objects, shared_api: ApiServer, namespace: str) -> None:
    wanted = account(shared_api, namespace, "a", {"app": namespace})
    account(shared_api, namespace, "b", {"app": "other"})
    other = account(shared_api, namespace, f"{namespace}-c")
    live = await read_rights(objects, [of_accounts({"selector": f"app={namespace}"}, {"name": other.name})])
    assert isinstance(live, LiveRights)
    assert live.accounts == {"x": (wanted, other)}


async def test_no_right_to_look_is_no_pass(shared_api: ApiServer, connect: Connect) -> None:
    connection = await connect(shared_api.kubeconfig_for("stranger"))
    objects = Objects(connection, Discovery(connection))
    found = await read_rights(objects, [])
    assert isinstance(found, ApiError)
    assert found.cls is ErrorClass.FORBIDDEN
    refused = await read_refused(objects, [of_accounts({"name": "a"})])
    assert isinstance(refused, dict)
    assert refused["x"].startswith("the rights of its ServiceAccounts cannot be read: ")
    assert "stranger" in refused["x"]


@pytest.mark.parametrize("path", ["/clusterrolebindings", "/serviceaccounts", "/apis$"])
async def test_a_part_that_is_not_answered_leaves_all_unknown(
    shared_api: ApiServer, fault_proxy: Callable[[ApiServer], FaultProxy], connect: Connect, path: str
) -> None:
    proxy = fault_proxy(shared_api)
    connection = await connect(proxy.kubeconfig)
    proxy.fail(Answer(503), on("GET", path), times=None)
    found = await read_refused(Objects(connection, Discovery(connection)), [of_accounts({"name": "a"})])
    assert isinstance(found, ApiError)
    assert found.cls is ErrorClass.RETRY


# -- against the authorizer -------------------------------------------------------------------------------------------

VERBS = ["get", "list", "create", "use"]
GROUPS = ["", "apps"]
RESOURCES = ["pods", "pods/log", "deployments/scale", "deployments"]
NAMES = ["", "a", "b"]

rules = st.fixed_dictionaries(
    {
        "verbs": st.lists(st.sampled_from([*VERBS, "*", "get*"]), min_size=1, max_size=2, unique=True),
        "apiGroups": st.lists(st.sampled_from([*GROUPS, "*"]), min_size=1, max_size=2, unique=True),
        "resources": st.lists(
            st.sampled_from([*RESOURCES, "*", "*/log", "*/scale", "*/*", "pods/*"]), min_size=1, max_size=2, unique=True
        ),
        "resourceNames": st.lists(st.sampled_from(["a", "*"]), max_size=1),
    }
)
roles = st.lists(st.tuples(st.booleans(), st.lists(rules, max_size=2)), min_size=1, max_size=4)
subjects = st.sampled_from(["account", "other", "user", "other user", "group", "other group"])
bindings = st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["", "own", "away"]), subjects), max_size=4)


def wild(**parts: list[str]) -> dict[str, list[str]]:
    """A rule that gets and lists pods, but for the parts that are given."""
    return {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": [], **parts}


def asked(api: ApiServer, who: Account, namespace: str, verb: str, group: str, resource: str, name: str) -> bool:
    plain, _, below = resource.partition("/")
    call = {"namespace": namespace, "verb": verb, "group": group, "resource": plain, "subresource": below, "name": name}
    spec = {"user": who.username, "groups": sorted(who.groups), "resourceAttributes": call}
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    answer = api.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", body)
    return bool(answer["status"]["allowed"])


def ours(found: RbacObjects, who: Account, namespace: str, verb: str, group: str, resource: str, name: str) -> bool:
    granted = rules_of(grants_of([who], found).grants, found)
    here = [g.rule for g in granted if g.namespaces is None or namespace in g.namespaces]
    return any(rule.allows(verb, group, resource, name) for rule in here)


_numbers = itertools.count()


@settings(
    max_examples=10,
    phases=[Phase.explicit, Phase.generate],  # an example takes a second: shrinking one would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(roles, bindings)
@example([(True, [wild(resources=["pods/*", "*/*"])])], [(0, "", "account")])
@example([(True, [wild(resources=["*/log"])])], [(0, "own", "group")])
@example([(True, [wild(verbs=["get*"])]), (False, [wild(resourceNames=["*"])])], [(0, "", "user"), (1, "", "user")])
@example([(True, [wild(resourceNames=["a"], verbs=["*"])])], [(0, "away", "account")])
@example([(False, [wild(apiGroups=["*"])])], [(0, "", "other group"), (0, "", "other"), (0, "", "other user")])
def test_generated_roles_allow_what_the_api_server_allows(
    shared_api: ApiServer, namespace: str, held: list[tuple[bool, list[Any]]], bound: list[tuple[int, str, str]]
) -> None:
    """Bindings by ServiceAccount, user name and group; Roles, and ClusterRoles in one namespace and everywhere."""
    prefix = f"{namespace}-{next(_numbers)}"
    own, away = shared_api.create_namespace(f"{prefix}o"), shared_api.create_namespace(f"{prefix}a")
    who = Account(own, "manager")
    spelled: dict[str, dict[str, str]] = {
        "account": subject(who),
        "other": subject(Account(away, "manager")),
        "user": {"kind": "User", "name": who.username, "apiGroup": "rbac.authorization.k8s.io"},
        "other user": {"kind": "User", "name": "manager", "apiGroup": "rbac.authorization.k8s.io"},
        "group": {"kind": "Group", "name": f"system:serviceaccounts:{own}", "apiGroup": "rbac.authorization.k8s.io"},
        "other group": {"kind": "Group", "name": f"system:serviceaccounts:{away}"},
    }
    declared = []
    for number, (wide, contained) in enumerate(held):
        kind, place = ("ClusterRole", "") if wide else ("Role", own)
        declared.append(create(shared_api, kind, f"{prefix}-r{number}", namespace=place, rules=contained))
    bindings = []
    for number, (target, place, whom) in enumerate(bound):
        role = declared[target % len(declared)]
        where = own if role["kind"] == "Role" else {"": "", "own": own, "away": away}[place]
        name = role["metadata"]["name"]
        made = bind(shared_api, f"{prefix}-b{number}", name, spelled[whom], namespace=where, kind=role["kind"])
        bindings.append(made)
    found = RbacObjects.of(map(Source, (*declared, *bindings)))
    calls = list(itertools.product([own, away], VERBS, GROUPS, RESOURCES[:3], NAMES[:2]))
    expected = {call: ours(found, who, *call) for call in calls}

    def agree() -> bool:
        return all(asked(shared_api, who, *call) is allowed for call, allowed in expected.items())

    shared_api.wait(agree, f"the API server to agree on {held} {bound}", timeout=20)


selector = st.one_of(
    st.dictionaries(st.sampled_from(["k1", "k2"]), st.sampled_from(["1", "2"]), min_size=1).map(
        lambda labels: {"matchLabels": labels}
    ),
    st.tuples(st.sampled_from(["k1", "k2"]), st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist"])).map(
        lambda each: {
            "matchExpressions": [
                {"key": each[0], "operator": each[1], **({"values": ["1"]} if each[1].endswith("In") else {})},
            ]
        }
    ),
)


def test_aggregation_is_computed_as_the_controller_does(full_api: ApiServer, full_namespace: str) -> None:
    """One controller, many selectors, also of roles that are aggregated themselves."""
    own = f"{full_namespace}.example/own"  # keeps the selectors to roles of this test
    samples: list[list[Any]] = []

    @settings(max_examples=12, database=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(selector, min_size=1, max_size=2))
    def collect(selectors: list[Any]) -> None:
        samples.append(selectors)

    collect()

    def mine(part: dict[str, Any]) -> dict[str, Any]:
        def key(name: str) -> str:
            return f"{full_namespace}.example/{name}"

        labels = {key(k): v for k, v in part.get("matchLabels", {}).items()} | {own: "yes"}
        expressions = [{**e, "key": key(e["key"])} for e in part.get("matchExpressions", ())]
        return {"matchLabels": labels, **({"matchExpressions": expressions} if expressions else {})}

    values = [None, "1", "2"]
    for number, (first, second) in enumerate(itertools.product(values, values)):
        marks = {f"{full_namespace}.example/k{n}": v for n, v in ((1, first), (2, second)) if v}
        held = [{"verbs": ["get"], "apiGroups": [f"g{number}"], "resources": ["things"]}]
        create(full_api, "ClusterRole", f"{full_namespace}-p{number}", labels={**marks, own: "yes"}, rules=held)
    for number, selectors in enumerate(samples):
        marks = {own: "yes", f"{full_namespace}.example/k1": "1"} if number % 3 == 0 else {}
        wanted = {"clusterRoleSelectors": [mine(s) for s in selectors]}
        create(full_api, "ClusterRole", f"{full_namespace}-a{number}", labels=marks, aggregationRule=wanted, rules=[])

    def agree() -> bool:
        listed = full_api.get(f"{RBAC}/clusterroles")["items"]
        found = RbacObjects.of(
            Source({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", **item}) for item in listed
        )
        aggregated = [role for role in found.cluster_roles if role.ref.name.startswith(f"{full_namespace}-a")]
        assert len(aggregated) == len(samples)
        written = [role for role in found.cluster_roles if role.selectors is None]
        return all(
            set(role.rules)
            == {rule for p in parts_of(role, found.cluster_roles) if any(p is w for w in written) for rule in p.rules}
            for role in aggregated
        )

    full_api.wait(agree, "the controller to aggregate as we do", timeout=30, pause=0.2)


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.fixture
def gitops(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    from gitops.cli.application import run_application

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as end:
            run_application([str(a) for a in arguments])
        said = capsys.readouterr()
        return int(end.value.code or 0), said.out, said.err

    return call


def test_the_command_judges_the_operators_of_a_cluster(
    private_api: Callable[..., ApiServer], gitops: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    api = private_api()
    folder = tmp_path / "credentials"
    folder.mkdir()
    shutil.copy(api.kubeconfig, folder / "dgx-a")
    shutil.copy(api.kubeconfig_for("stranger"), folder / "dgx-b")
    check = ("rbac", "check", "--credentials-dir", folder, "--cluster")

    code, out, _ = gitops(*check, "dgx-a")
    assert code == 0
    assert "dgx-a: operator type nim (no ServiceAccount)" in out
    assert "the operator has no ServiceAccount on the cluster, so there is nothing to judge" in out

    api.create_namespace("anywhere")
    who = account(api, "anywhere", "k8s-nim-operator")
    secrets = [{"verbs": ["list"], "apiGroups": [""], "resources": ["secrets"]}]
    create(api, "ClusterRole", "reader", rules=secrets)
    bind(api, "reader", "reader", subject(who))
    code, out, _ = gitops(*check, "dgx-a", "--operator", "nim")
    assert code == 0
    assert "dgx-a: operator type nim (anywhere/k8s-nim-operator)" in out
    assert "dgx-a: ClusterRole.rbac.authorization.k8s.io reader rule 1: list secrets everywhere" in out
    assert "dynamo" not in out

    bind(api, "all", "cluster-admin", {"kind": "Group", "name": "system:serviceaccounts"})
    code, out, _ = gitops(*check, "dgx-a")
    assert code == 1
    assert "dgx-a: error GO4413: ClusterRoleBinding.rbac.authorization.k8s.io all binds cluster-admin" in out

    code, out, err = gitops(*check, "dgx-b")
    assert (code, out) == (2, "")
    assert err.startswith("gitops: dgx-b: the roles cannot be read: ")
    assert "stranger" in err

    api.stop()  # type: ignore[attr-defined]
    code, out, err = gitops(*check, "dgx-a")
    assert (code, out) == (2, "")
    assert err.startswith("gitops: dgx-a: the roles cannot be read: ")


async def test_a_refused_list_leaves_no_call_in_flight() -> None:
    """Once seen as sockets that nobody closed: the other lists went on over a connection that was being closed."""
    begun, ended = [], []

    class Refusing:
        async def list_objects(self, kind: GroupVersionKind, **_: str) -> ApiError:
            begun.append(kind)
            await asyncio.sleep(0.001 * len(begun))
            ended.append(kind)
            return ApiError(ErrorClass.FORBIDDEN, reason="Forbidden", message="no")

    answer = await read_rights(cast(Objects, Refusing()), [])
    assert isinstance(answer, ApiError)
    assert begun == ended
