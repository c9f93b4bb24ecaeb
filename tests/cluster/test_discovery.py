"""Discovery: against a real API server, and against a scripted proxy for what a healthy one never says."""

import asyncio
import json
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from controlplane_kit.client import ApiServer
from controlplane_kit.definitions import definition
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import Answer, Hold, on

from gitops.cluster import discovery as module
from gitops.cluster.applying import Applier
from gitops.cluster.connection import Connection, Response
from gitops.cluster.discovery import Discovery, Resource
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.model.identity import GroupVersionKind, ObjectRef

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")
DEPLOYMENT = GroupVersionKind("apps", "v1", "Deployment")
CLUSTER_ROLE = GroupVersionKind("rbac.authorization.k8s.io", "v1", "ClusterRole")
Connect = Callable[..., Awaitable[Connection]]


def crd(kind: str, group: str = "discovery.gitops.example", scope: str = "Cluster") -> dict[str, Any]:
    return definition(kind, group, scope=scope)


async def test_two_requests_bring_everything(connection: Connection) -> None:
    discovery = Discovery(connection)
    role = await discovery.find(CLUSTER_ROLE)
    assert isinstance(role, Resource)
    assert (role.plural, role.namespaced) == ("clusterroles", False)
    deployment = await discovery.find(DEPLOYMENT)
    assert isinstance(deployment, Resource)
    assert deployment.subresources == {"status", "scale"}
    assert {"get", "list", "watch", "patch", "delete"} <= deployment.verbs
    assert isinstance(await discovery.find(CONFIG_MAP), Resource)
    assert connection.stats.requests == {"discovery": 2}
    assert DEPLOYMENT in discovery.known()


def test_paths() -> None:
    configs = Resource(CONFIG_MAP, "configmaps", True, frozenset())
    assert configs.path() == "/api/v1/configmaps"
    assert configs.path(namespace="a", name="b") == "/api/v1/namespaces/a/configmaps/b"
    roles = Resource(CLUSTER_ROLE, "clusterroles", False, frozenset())
    # Names of RBAC objects are path segments, not DNS names.
    assert roles.path(namespace="x", name="system:a b") == (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa%20b"
    )
    assert (
        Resource(DEPLOYMENT, "deployments", True, frozenset()).path(namespace="a", name="b", subresource="scale")
        == "/apis/apps/v1/namespaces/a/deployments/b/scale"
    )


async def test_o01_o04_a_miss_looks_again_before_it_is_believed(connection: Connection, shared_api: ApiServer) -> None:
    discovery = Discovery(connection, miss_interval=3600)
    gvk = GroupVersionKind("discovery.gitops.example", "v1", "Late")
    assert isinstance(await discovery.find(CONFIG_MAP), Resource)
    missing = await discovery.find(gvk)
    assert isinstance(missing, ApiError)
    assert (missing.cls, missing.waits_for) == (ErrorClass.WAITING, "kind Late.discovery.gitops.example at v1")
    calls = connection.stats.requests["discovery"]
    assert calls == 4
    assert isinstance(await discovery.find(gvk), ApiError)
    assert connection.stats.requests["discovery"] == calls  # not again within the interval

    shared_api.create_crd_objects([crd("Late")])
    discovery.invalidate()
    found = await discovery.find(gvk)
    assert isinstance(found, Resource)
    assert found.plural == "lates"


async def test_o04_a_kind_that_went_away_is_noticed_by_its_404(applier: Applier, shared_api: ApiServer) -> None:
    shared_api.create_crd_objects([crd("Brief")])
    gvk = GroupVersionKind("discovery.gitops.example", "v1", "Brief")
    ref = ObjectRef(gvk.group, gvk.kind, "", "a")
    assert await applier.get(gvk, ref) is None
    shared_api.request(
        "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/briefs.discovery.gitops.example"
    )

    def is_gone() -> bool:
        return shared_api.get(f"/apis/{gvk.group}/v1/briefs") is None

    shared_api.wait(is_gone, "the definition to be gone")
    for _ in range(2):  # from the answer of the server, then from discovery
        found = await applier.get(gvk, ref)
        assert isinstance(found, ApiError)  # never "absent"
        assert (found.cls, found.waits_for) == (ErrorClass.WAITING, "kind Brief.discovery.gitops.example at v1")


async def test_o04_one_group_goes_another_comes_and_a_third_changes_its_scope(
    applier: Applier, shared_api: ApiServer
) -> None:
    """Nobody tells discovery; each is noticed by the one call that meets it, and no other kind notices anything."""
    going, coming, changing = "going.gitops.example", "coming.gitops.example", "changing.gitops.example"

    def delete(name: str) -> None:
        shared_api.request("DELETE", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        plural, _, group = name.partition(".")
        shared_api.wait(lambda: shared_api.get(f"/apis/{group}/v1/{plural}") is None, f"{name} to be gone")

    async def find(group: str, kind: str) -> Resource | ApiError:
        return await applier.discovery.find(GroupVersionKind(group, "v1", kind))

    shared_api.create_crd_objects([crd("Going", going), crd("Changing", changing, "Namespaced")])
    before = await find(changing, "Changing")
    assert isinstance(before, Resource)
    assert before.namespaced
    delete(f"goings.{going}")
    delete(f"changings.{changing}")
    shared_api.create_crd_objects([crd("Changing", changing, "Cluster"), crd("Coming", coming)])

    gvk = GroupVersionKind(changing, "v1", "Changing")
    met = await applier.get(gvk, ObjectRef(changing, "Changing", "default", "a"))
    assert isinstance(met, ApiError), "asked at the place where it was"
    assert met.cls is ErrorClass.WAITING
    assert await applier.get(gvk, ObjectRef(changing, "Changing", "default", "a")) is None
    after = await find(changing, "Changing")
    assert isinstance(after, Resource)
    assert not after.namespaced
    assert isinstance(await find(coming, "Coming"), Resource)
    gone = await find(going, "Going")
    assert isinstance(gone, ApiError)
    assert gone.cls is ErrorClass.WAITING
    assert isinstance(await applier.discovery.find(DEPLOYMENT), Resource)


async def test_unchanged_documents_are_not_sent_again(connection: Connection) -> None:
    discovery = Discovery(connection)
    await discovery.find(CONFIG_MAP)
    received = connection.stats.bytes_received
    discovery.invalidate()
    assert isinstance(await discovery.find(CONFIG_MAP), Resource)
    assert connection.stats.answers[304] >= 1
    assert connection.stats.bytes_received < received * 1.9


async def test_an_unreachable_cluster_is_no_missing_kind(
    shared_api: ApiServer, connect: Connect, fault_proxy: Callable[[ApiServer], FaultProxy]
) -> None:
    proxy = fault_proxy(shared_api)
    discovery = Discovery(await connect(proxy.kubeconfig))
    proxy.refuse()
    failed = await discovery.find(CONFIG_MAP)
    assert isinstance(failed, ApiError)
    assert failed.cls is ErrorClass.UNREACHABLE
    proxy.restore()
    assert isinstance(await discovery.find(CONFIG_MAP), Resource)
    proxy.fail(Answer(503), on("GET", "/apis$"), times=None)
    discovery.invalidate()
    assert isinstance(await discovery.find(CONFIG_MAP), Resource)  # what is known serves on
    unseen = await discovery.find(GroupVersionKind("x.example", "v1", "X"))
    assert isinstance(unseen, ApiError)
    assert unseen.cls is ErrorClass.RETRY
    proxy.restore()
    proxy.fail(Answer(200), on("GET", "/apis$"), times=1)  # a page of a proxy: it does not make an old server of it
    discovery.invalidate()
    page = await discovery.find(GroupVersionKind("x.example", "v1", "X"))
    assert isinstance(page, ApiError)
    assert page.reason == "NotJson"
    assert isinstance(await discovery.survey(), module.Survey)


async def test_o04_a_failing_group_is_unknown_not_empty(shared_api: ApiServer, connect: Connect) -> None:
    """A real one: an APIService whose backend does not exist."""
    group = "failing.gitops.example"
    service = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"v1.{group}"},
        "spec": {
            "group": group,
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 100,
            "insecureSkipTLSVerify": True,
            "service": {"name": "ghost", "namespace": "default"},
        },
    }
    path = "/apis/apiregistration.k8s.io/v1/apiservices"
    shared_api.request("POST", path, service)
    try:
        discovery = Discovery(await connect(shared_api.kubeconfig))
        gvk = GroupVersionKind(group, "v1", "Thing")

        async def listed() -> bool:
            discovery.invalidate()
            found = await discovery.find(gvk)
            assert isinstance(found, ApiError)
            return found.cls is ErrorClass.RETRY

        async with asyncio.timeout(30):
            while not await listed():  # noqa: ASYNC110 - the server is asked
                await asyncio.sleep(0.02)
        assert isinstance(await discovery.find(DEPLOYMENT), Resource)
        everything = await discovery.everything()
        assert isinstance(everything, ApiError), "a namespace may hold objects of the group that fails"
        assert everything.cls is ErrorClass.RETRY
    finally:
        shared_api.request("DELETE", f"{path}/v1.{group}")


async def test_the_lease_is_found_while_discovery_hangs_or_is_put_off(
    shared_api: ApiServer, connect: Connect, fault_proxy: Callable[[ApiServer], FaultProxy]
) -> None:
    """A renewal waits for no pause of the server, so it must not wait for discovery, which does."""
    proxy = fault_proxy(shared_api)
    discovery = Discovery(await connect(proxy.kubeconfig))
    hold = Hold()
    proxy.fail(hold, on("GET", "/apis?$"), times=None)
    waiting = asyncio.create_task(discovery.find(DEPLOYMENT))
    assert await asyncio.to_thread(hold.arrived.wait, 10)
    lease = await discovery.find(GroupVersionKind("coordination.k8s.io", "v1", "Lease"))
    hold.release()
    assert isinstance(lease, Resource)
    assert not waiting.done()
    assert isinstance(await waiting, Resource)
    real = discovery.known()[lease.gvk]
    assert (lease.plural, lease.namespaced, lease.verbs <= real.verbs) == (real.plural, real.namespaced, True)


async def test_everything_is_asked_anew_after_a_definition_came(connection: Connection, shared_api: ApiServer) -> None:
    discovery = Discovery(connection)
    await discovery.find(CONFIG_MAP)
    shared_api.create_crd_objects([crd("Newcomer")])
    discovery.invalidate()
    everything = await discovery.everything()
    assert not isinstance(everything, ApiError)
    assert GroupVersionKind("discovery.gitops.example", "v1", "Newcomer") in everything


async def test_o04_stale_versions_keep_what_was_known() -> None:
    """The server of a.example fails: what it served before still does, and what nobody saw is not "not served"."""

    def group(name: str, **version: Any) -> dict[str, Any]:
        return {"metadata": {"name": name}, "versions": [{"version": "v1", **version}]}

    served = {"resource": "as", "responseKind": {"kind": "A"}, "scope": "Namespaced", "verbs": ["get", "list"]}
    groups = [group("a.example", resources=[served]), group("b.example")]

    class Server:
        async def request(self, method: str, path: str, **_: Any) -> Response:
            body = {"items": groups if path == "/apis" else []}
            headers = {"Content-Type": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
            return Response(200, headers, json.dumps(body).encode())

    discovery = Discovery(Server(), miss_interval=0.0)  # type: ignore[arg-type]
    kind = GroupVersionKind("a.example", "v1", "A")
    assert isinstance(await discovery.find(kind), Resource)
    groups[0] = group("a.example", freshness="Stale")
    discovery.invalidate()
    assert isinstance(await discovery.find(kind), Resource)
    unseen = await discovery.find(GroupVersionKind("a.example", "v1", "B"))
    assert isinstance(unseen, ApiError)
    assert unseen.cls is ErrorClass.RETRY
    everything = await discovery.everything()
    assert isinstance(everything, ApiError), "a part of it is not known"


async def test_a04_three_hundred_groups_cost_the_calls_of_one_and_a_few_hundred_bytes_a_kind() -> None:
    """Some of them fail, which costs nothing more: they are unknown, and the others go on."""
    verbs = ["create", "delete", "get", "list", "patch", "update", "watch"]

    def group(number: int) -> dict[str, Any]:
        kinds = [f"Kind{i}" for i in range(10)]
        resources = [
            {"resource": f"{k.lower()}s", "responseKind": {"kind": k}, "scope": "Namespaced", "verbs": verbs}
            for k in kinds
        ]
        version = {"version": "v1", "freshness": "Stale"} if number % 30 == 29 else {"version": "v1"}
        return {"metadata": {"name": f"g{number}.example"}, "versions": [{**version, "resources": resources}]}

    document = json.dumps({"items": [group(number) for number in range(300)]}).encode()

    class Server:
        calls: ClassVar[list[str]] = []

        async def request(self, method: str, path: str, *, headers: Any = None, **_: Any) -> Response:
            self.calls.append(path)
            answer = {"Content-Type": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
            body = document if path == "/apis" else b"{}"
            return Response(304 if headers else 200, {**answer, "Etag": "e"}, b"" if headers else body)

    server = Server()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        discovery = Discovery(server)  # type: ignore[arg-type]
        for number in range(28):
            for kind in range(10):
                found = await discovery.find(GroupVersionKind(f"g{number}.example", "v1", f"Kind{kind}"))
                assert isinstance(found, Resource)
        kept = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert server.calls == ["/api", "/apis"], "not one for each group"
    assert kept < 3_000 * 1_000
    unknown = await discovery.find(GroupVersionKind("g29.example", "v1", "Missing"))
    assert isinstance(unknown, ApiError)
    assert unknown.cls is ErrorClass.RETRY, "its server fails, so nobody knows"
    missing = await discovery.find(GroupVersionKind("g1.example", "v1", "Missing"))
    assert isinstance(missing, ApiError)
    assert missing.cls is ErrorClass.WAITING
    server.calls.clear()
    discovery.invalidate()
    await asyncio.gather(
        *(discovery.find(GroupVersionKind(f"g{number}.example", "v1", "Kind0")) for number in range(300))
    )
    assert server.calls == ["/api", "/apis"], "one look for all who ask after a definition came"


def test_o04_stale_versions_are_read() -> None:
    listing = module._read_aggregated(
        {
            "items": [
                {"metadata": {"name": "a.example"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
                {
                    "metadata": {"name": "b.example"},
                    "versions": [
                        {
                            "version": "v1",
                            "resources": [
                                {
                                    "resource": "bs",
                                    "responseKind": {"kind": "B"},
                                    "scope": "Namespaced",
                                    "verbs": ["get"],
                                }
                            ],
                        }
                    ],
                },
            ]
        }
    )
    assert listing.stale == {("a.example", "v1")}
    assert list(listing.resources) == [GroupVersionKind("b.example", "v1", "B")]


async def test_a_server_without_the_aggregated_form_is_asked_by_group(
    connection: Connection,
) -> None:
    discovery = Discovery(connection, miss_interval=3600)
    discovery._aggregated = False  # as after an answer in the plain form
    deployment = await discovery.find(DEPLOYMENT)
    assert isinstance(deployment, Resource)
    assert (deployment.plural, deployment.namespaced, deployment.subresources) == (
        "deployments",
        True,
        {"status", "scale"},
    )
    assert isinstance(await discovery.find(CONFIG_MAP), Resource)
    missing = await discovery.find(GroupVersionKind("x.example", "v1", "X"))
    assert isinstance(missing, ApiError)
    assert missing.cls is ErrorClass.WAITING
    assert isinstance(await discovery.find(DEPLOYMENT), Resource)


async def test_server_version(connection: Connection) -> None:
    version = await Discovery(connection).server_version()
    assert not isinstance(version, ApiError)
    assert version.major == 1
    assert version.minor >= 30
    assert str(version).startswith("v1.")
