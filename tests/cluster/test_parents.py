"""Parents: records survive as they are, races are noticed, and what cannot be read is never taken for absent."""

import asyncio
import json
import subprocess
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from controlplane_kit.client import MERGE, ApiServer
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import Cut, LoseAnswer, Request, on

from gitops.cluster import parent_chunks, parents
from gitops.cluster.claims import ensure_namespaces
from gitops.cluster.connection import Connection
from gitops.cluster.discovery import Discovery
from gitops.cluster.errors import ApiError, ErrorClass
from gitops.cluster.objects import Objects
from gitops.cluster.parents import MAX_RECORD, ParentStore, StoredParents, UnreadableParent, encode_record, read_parent
from gitops.model.identity import ClusterName, Commit, ObjectRef, ReconcilerName, UnitKey, WorkloadKind
from gitops.model.kinds import CONFIG_MAP
from gitops.plan.parents import Member, ParentRecord, applyset_id, parent_name

CLUSTER = ClusterName("dgx-a")
FOLDER = "/api/v1/namespaces/gitops-system/configmaps"
Connect = Callable[..., Awaitable[Connection]]


def unit(name: str) -> UnitKey:
    return UnitKey(WorkloadKind.FUNCTION, name, "h100-0", CLUSTER)


def record(name: str = "chat", **changes: Any) -> ParentRecord:
    members = (
        Member(ObjectRef("", "ConfigMap", "fn-chat", "settings"), "v1", "uid-1"),
        Member(ObjectRef("", "Namespace", "", "fn-chat"), "v1", "uid-2"),
        Member(ObjectRef("apps", "Deployment", "fn-chat", "web"), "v1"),
    )
    return replace(
        ParentRecord(
            unit=unit(name),
            members=members,
            content_key="key-1",
            commit=Commit("a" * 40),
            namespace="fn-chat",
            version="1.0",
            base_digest="d",
        ),
        **changes,
    )


@pytest.fixture
def reconciler(request: pytest.FixtureRequest) -> ReconcilerName:
    """One for each test: parents of other tests on the shared server are not ours."""
    return ReconcilerName(f"r{abs(hash(request.node.nodeid)) % 10**9}")


@pytest_asyncio.fixture
async def store(applier: Objects, reconciler: ReconcilerName) -> ParentStore:
    assert await ensure_namespaces(applier, manager="gitops-test") is None
    return ParentStore(applier, reconciler=reconciler, cluster=CLUSTER, manager="gitops-test")


def path(name: str) -> str:
    return f"{FOLDER}/{parent_name(unit(name))}"


async def written(store: ParentStore, wanted: ParentRecord) -> ParentRecord:
    result = await store.write(wanted)
    assert isinstance(result, ParentRecord), result
    return result


async def loaded(store: ParentStore) -> StoredParents:
    result = await store.load_all()
    assert isinstance(result, StoredParents), result
    return result


async def test_a_record_comes_back_as_it_was(store: ParentStore, shared_api: ApiServer, reconciler: str) -> None:
    assert await store.load(unit("roundtrip")) is None
    stored = await written(store, record("roundtrip"))
    assert stored.resource_version
    assert await store.load(unit("roundtrip")) == stored
    assert (await loaded(store)).records == {unit("roundtrip"): stored}

    live = shared_api.get(path("roundtrip"))["metadata"]
    name = parent_name(unit("roundtrip"))
    assert live["labels"] == {
        "applyset.kubernetes.io/id": applyset_id(name),
        "gitops/reconciler": reconciler,
        "gitops/workload": "roundtrip",
    }
    assert live["annotations"] == {
        "gitops/unit": "function/roundtrip/h100-0",
        "applyset.kubernetes.io/tooling": "gitops/v1",
        "applyset.kubernetes.io/contains-group-kinds": "ConfigMap,Deployment.apps,Namespace",
        "applyset.kubernetes.io/additional-namespaces": "fn-chat",
    }
    assert await store.delete(stored) is None
    assert (await loaded(store)).records == {}
    assert await store.delete(stored) is None


async def test_changes_are_one_call_each(store: ParentStore, applier: Objects) -> None:
    first = await written(store, record("calls"))
    before = applier.connection.stats.requests.copy()
    second = await written(store, replace(first, members=first.members[:1], content_key="key-2"))
    third = await written(store, replace(second, members=()))
    assert applier.connection.stats.requests - before == {"patch": 2}
    assert await store.load(unit("calls")) == third
    assert third.members == ()


async def test_kubectl_keeps_its_hands_off(
    store: ParentStore, shared_api: ApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """KEP-3659: kubectl's own pruning refuses a parent of another tooling, and names ours."""
    await written(store, record("kubectl"))
    monkeypatch.setenv("KUBECTL_APPLYSET", "true")
    before = shared_api.get(path("kubectl"))
    manifest = json.dumps(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "stray", "namespace": "gitops-system"}}
    )
    with pytest.raises(subprocess.CalledProcessError) as refused:
        shared_api.kubectl(
            *("apply", "--prune", "-n", "gitops-system", "-f", "-"),
            f"--applyset=configmap/{parent_name(unit('kubectl'))}",
            stdin=manifest,
        )
    assert 'managed by tooling "gitops"' in refused.value.stderr
    assert shared_api.get(path("kubectl")) == before


async def test_annotating_a_parent_disturbs_nothing(store: ParentStore, shared_api: ApiServer) -> None:
    first = await written(store, record("paused"))
    note = {"metadata": {"annotations": {"gitops/pause-until": "2026-12-01T00:00:00Z", "note": "mine"}}}
    shared_api.request("PATCH", path("paused"), note, content_type=MERGE)
    second = await written(store, replace(first, content_key="key-2"))
    assert second.pause_until == "2026-12-01T00:00:00Z"
    live = shared_api.get(path("paused"))["metadata"]["annotations"]
    assert live["note"] == "mine"
    assert (await loaded(store)).records[unit("paused")] == second


async def test_a09_another_writers_record_is_not_overwritten(
    store: ParentStore, applier: Objects, reconciler: ReconcilerName
) -> None:
    first = await written(store, record("race"))
    other = ParentStore(applier, reconciler=reconciler, cluster=CLUSTER, manager="gitops-test")
    theirs = await other.load(unit("race"))
    assert isinstance(theirs, ParentRecord)
    theirs = await written(other, replace(theirs, content_key="theirs"))

    lost = await store.write(replace(first, content_key="ours"))
    assert isinstance(lost, ApiError)
    assert lost.cls is ErrorClass.STALE
    assert await store.load(unit("race")) == theirs
    assert isinstance(await store.write(replace(theirs, content_key="ours")), ParentRecord)

    twice = await store.write(record("race", content_key="again from nothing"))
    assert isinstance(twice, ParentRecord | ApiError)
    fresh = ParentStore(applier, reconciler=reconciler, cluster=CLUSTER, manager="gitops-test")
    blind = await fresh.write(record("race", content_key="blind"))
    assert isinstance(blind, ApiError)
    assert blind.cls is ErrorClass.STALE


async def test_a09_writers_that_read_again_after_a_conflict_lose_no_update(
    applier: Objects, reconciler: ReconcilerName
) -> None:
    """Four at once, each adds its members one by one to what is stored."""
    conflicts = 0

    async def add(writer: int) -> None:
        nonlocal conflicts
        store = ParentStore(applier, reconciler=reconciler, cluster=CLUSTER, manager="gitops-test")
        held = await store.load(unit("shared"))
        for number in range(5):
            one = Member(ObjectRef("", "ConfigMap", "n", f"{writer}-{number}"), "v1", "u")
            for _ in range(50):
                assert isinstance(held, ParentRecord)
                stored = await store.write(replace(held, members=tuple(sorted({*held.members, one}))))
                if isinstance(stored, ParentRecord):
                    held = stored
                    break
                assert stored.cls is ErrorClass.STALE, "a lost race and nothing else"
                conflicts += 1
                held = await store.load(unit("shared"))
            else:
                pytest.fail("no end of conflicts")

    first = ParentStore(applier, reconciler=reconciler, cluster=CLUSTER, manager="gitops-test")
    await written(first, record("shared", members=()))
    await asyncio.gather(*(add(writer) for writer in range(4)))
    stored = await first.load(unit("shared"))
    assert isinstance(stored, ParentRecord)
    assert {m.ref.name for m in stored.members} == {f"{w}-{n}" for w in range(4) for n in range(5)}
    assert conflicts > 0, "nobody met anybody: nothing was shown"


async def test_a_parent_deleted_by_hand_is_stored_again(store: ParentStore, shared_api: ApiServer) -> None:
    first = await written(store, record("deleted"))
    shared_api.request("DELETE", path("deleted"))
    second = await written(store, replace(first, content_key="key-2"))
    assert await store.load(unit("deleted")) == second


async def test_a_lost_answer_is_not_a_lost_race(
    shared_api: ApiServer,
    connect: Connect,
    reconciler: ReconcilerName,
    applier: Objects,
    fault_proxy: Callable[[ApiServer], FaultProxy],
) -> None:
    await ensure_namespaces(applier, manager="m")
    proxy = fault_proxy(shared_api)
    connection = await connect(proxy.kubeconfig)
    store = ParentStore(Objects(connection, Discovery(connection)), reconciler=reconciler, cluster=CLUSTER, manager="m")
    proxy.fail(LoseAnswer(), on("POST", FOLDER))
    failed = await store.write(record("lost"))
    assert isinstance(failed, ApiError)
    assert failed.cls is ErrorClass.UNREACHABLE
    assert isinstance(await store.write(record("lost")), ParentRecord)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"data": {"record": "{"}}, "cannot be read"),
        ({"data": {"record": None}}, "cannot be read"),
        ({"data": {"record": '{"format":9,"unit":"function/i1/h100-0@a","members":{}}'}}, "format 9"),
        ({"data": {"record": '{"format":1,"unit":"function/else/h100-0@a","members":{}}'}}, "that of function/else"),
        (
            {"data": {"record": '{"format":1,"unit":"function/i1/h100-0@a","members":{"x":{"":{"a":"u"}}}}'}},
            "cannot be read",
        ),
        ({"metadata": {"annotations": {"applyset.kubernetes.io/tooling": "kubectl/v1"}}}, "kubectl/v1"),
    ],
)
async def test_i1_an_unreadable_parent_is_reported_and_not_absent(
    store: ParentStore, shared_api: ApiServer, change: dict[str, Any], why: str
) -> None:
    stored = await written(store, record("i1"))
    shared_api.request("PATCH", path("i1"), change, content_type=MERGE)
    try:
        found = await loaded(store)
        assert found.records == {}
        (unreadable,) = found.unreadable
        assert why in unreadable.why
        assert isinstance(await store.load(unit("i1")), UnreadableParent)
        refused = await store.write(replace(stored, content_key="x"))
        assert isinstance(refused, ApiError)
    finally:
        shared_api.request("DELETE", path("i1"))


async def test_i1_an_unreachable_cluster_has_no_parents_to_tell(
    store: ParentStore, connect: Connect, shared_api: ApiServer, fault_proxy: Callable[[ApiServer], FaultProxy]
) -> None:
    proxy = fault_proxy(shared_api)
    connection = await connect(proxy.kubeconfig)
    cut = ParentStore(
        Objects(connection, Discovery(connection)), reconciler=ReconcilerName("x"), cluster=CLUSTER, manager="m"
    )
    proxy.refuse()
    for answer in (await cut.load_all(), await cut.load(unit("x")), await cut.write(record("x"))):
        assert isinstance(answer, ApiError)


def test_a06_thousands_of_members_fit_and_more_are_refused() -> None:
    many = tuple(
        Member(ObjectRef("nvidia.com", "DynamoGraphDeployment", f"fn-{i % 50}", f"object-{i}"), "v1beta1", f"{i:036d}")
        for i in range(10_000)
    )
    assert len(encode_record(record(members=many))) < MAX_RECORD


async def test_a06_a_record_that_is_too_large_is_a_visible_error(
    store: ParentStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parents, "MAX_RECORD", 1_000)
    many = tuple(Member(ObjectRef("", "ConfigMap", "n", f"{i}-" + "x" * 200), "v1", "u") for i in range(500))
    error = await store.write(record("large", members=many))
    assert isinstance(error, ApiError)
    assert (error.cls, error.reason) == (ErrorClass.REFUSED, "TooLarge")


def members(number: int, *, uid: str = "u") -> tuple[Member, ...]:
    refs = (ObjectRef("nvidia.com", "DynamoGraphDeployment", f"fn-{i % 50}", f"object-{i}") for i in range(number))
    return tuple(sorted(Member(ref, "v1beta1", f"{uid}-{i:034d}") for i, ref in enumerate(refs)))


async def chunks_of(store: ParentStore, name: str) -> set[str]:
    """Names of the chunks of a unit that exist."""
    parent = parent_name(unit(name))
    listing = await store._objects.list_objects(
        CONFIG_MAP, namespace="gitops-system", selector=f"{parent_chunks.CHUNK_OF_LABEL}={parent}"
    )
    assert not isinstance(listing, ApiError)
    return {item["metadata"]["name"] for item in listing.items}


async def named(store: ParentStore, name: str) -> set[str]:
    """Names of the chunks that the parent of a unit names."""
    live = await store._objects.get(CONFIG_MAP, ObjectRef("", "ConfigMap", "gitops-system", parent_name(unit(name))))
    assert isinstance(live, dict)
    return set(parents.chunk_names(live))


async def test_a06_six_thousand_members_with_the_longest_names_stay_below_the_limit_of_one_object(
    store: ParentStore, shared_api: ApiServer
) -> None:
    refs = (ObjectRef("nvidia.com", "DynamoGraphDeployment", "n" * 63, f"{i:05}-{'x' * 247}") for i in range(6_000))
    first = await written(store, record("long", members=tuple(Member(ref, "v1beta1", "u" * 36) for ref in refs)))
    for name in (parent_name(unit("long")), *await chunks_of(store, "long")):
        stored = shared_api.get(f"/api/v1/namespaces/gitops-system/configmaps/{name}")
        assert len(json.dumps(stored)) < 1_048_576, "etcd takes 1.5 MiB, the API server 1 MiB of data"
    assert await store.load(unit("long")) == first


async def test_a06_thirty_thousand_members_are_stored_in_chunks_and_one_more_rewrites_one_of_them(
    store: ParentStore, applier: Objects, reconciler: ReconcilerName
) -> None:
    first = await written(store, record("huge", members=members(30_000)))
    chunks = await chunks_of(store, "huge")
    assert chunks == await named(store, "huge")
    assert len(chunks) == 2
    fresh = ParentStore(applier, reconciler=reconciler, cluster=CLUSTER, manager="gitops-test")
    assert (await loaded(fresh)).records == {unit("huge"): first}
    assert await store.load(unit("huge")) == first

    before = applier.connection.stats.requests.copy()
    more = tuple(sorted((*first.members, Member(ObjectRef("", "Secret", "n", "s"), "v1", "u"))))
    second = await written(fresh, replace(first, members=more))
    assert applier.connection.stats.requests - before == {"create": 1, "patch": 1, "get": 1, "delete": 1}
    assert len(await chunks_of(store, "huge") - chunks) == 1
    # below the limit it is one ConfigMap again, and no chunk is left
    small = await written(fresh, replace(second, members=more[:3]))
    assert await chunks_of(store, "huge") == set()
    assert await store.load(unit("huge")) == small
    large = await written(fresh, replace(small, members=more))
    assert await fresh.delete(large) is None
    assert await chunks_of(store, "huge") == set()
    assert await store.load(unit("huge")) is None


@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("change", ["first", "more", "fewer", "inline", "delete"])
async def test_a_crash_at_any_write_leaves_the_old_record_or_the_new_one(
    shared_api: ApiServer,
    connect: Connect,
    applier: Objects,
    fault_proxy: Callable[[ApiServer], FaultProxy],
    reconciler: ReconcilerName,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    done: bool,
) -> None:
    """Only n writes, of which the last is answered or not (`done`), reach the API server; then comes the next."""
    monkeypatch.setattr(parents, "MAX_RECORD", 20_000)
    await ensure_namespaces(applier, manager="m")
    proxy = fault_proxy(shared_api)
    name = f"crash-{change}"
    sizes = {"first": (0, 600), "more": (600, 1200), "fewer": (1200, 600), "inline": (600, 5), "delete": (600, 0)}
    old_size, new_size = sizes[change]

    async def daemon(kubeconfig: Path) -> ParentStore:
        connection = await connect(kubeconfig)
        objects = Objects(connection, Discovery(connection))
        return ParentStore(objects, reconciler=reconciler, cluster=CLUSTER, manager="m")

    async def to_new(store: ParentStore, before: ParentRecord | None) -> ParentRecord | ApiError | None:
        wanted = replace(before or record(name), members=members(new_size), content_key="new")
        return await store.delete(wanted) if change == "delete" else await store.write(wanted)

    for number in range(40):
        store = await daemon(shared_api.kubeconfig)
        old = await written(store, record(name, members=members(old_size), content_key="old")) if old_size else None
        victim = await daemon(proxy.kubeconfig)
        known = (await loaded(victim)).records.get(unit(name))
        assert known == old
        proxy.clear()
        count: list[Request] = []

        def nth(request: Request, *, number: int = number, count: list[Request] = count) -> bool:
            count.extend([request] if request.is_write else [])
            return len(count) > number

        def later(request: Request, *, number: int = number, count: list[Request] = count) -> bool:
            return request.is_write and len(count) > number

        proxy.fail(LoseAnswer() if done else Cut(), nth)
        proxy.fail(Cut(), later, times=None)
        answer = await to_new(victim, known)
        proxy.rules.clear()

        after = await daemon(shared_api.kubeconfig)
        stored = await loaded(after)
        assert stored.unreadable == ()
        found = stored.records.get(unit(name))
        assert members_of(found) in (members_of(old), members(new_size), ())
        if members_of(found) == () and change in ("more", "fewer", "inline"):
            pytest.fail("a record that had members has none")
        # the next daemon does it again, and nothing is left over
        result = await to_new(after, found)
        assert result is None or isinstance(result, ParentRecord), result
        final = await after.load(unit(name))
        assert (final is None) == (change == "delete")
        if isinstance(final, ParentRecord):
            assert final.members == members(new_size)
            assert await chunks_of(after, name) == await named(after, name)
            assert await after.delete(final) is None
        assert await chunks_of(after, name) == set()
        if len(count) <= number:
            assert not isinstance(answer, ApiError)
            break
    else:
        pytest.fail("writes without end")
    assert number >= (2 if change != "delete" else 3)


def members_of(found: ParentRecord | None) -> tuple[Member, ...]:
    return () if found is None else found.members


@pytest.mark.parametrize("damage", ["missing", "other content"])
async def test_i1_a_torn_set_of_chunks_is_reported_and_its_record_not_used(
    store: ParentStore, shared_api: ApiServer, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(parents, "MAX_RECORD", 5_000)
    stored = await written(store, record("torn", members=members(300)))
    victim = sorted(await chunks_of(store, "torn"))[0]
    body = shared_api.get(f"{FOLDER}/{victim}")
    shared_api.request("DELETE", f"{FOLDER}/{victim}")
    if damage == "other content":
        body["data"]["members"] = "{}"
        del body["metadata"]["resourceVersion"], body["metadata"]["uid"]
        shared_api.request("POST", FOLDER, body)
    found = await loaded(store)
    assert found.records == {}
    (unreadable,) = found.unreadable
    assert unreadable.name == parent_name(unit("torn"))
    assert victim in unreadable.why
    assert isinstance(await store.load(unit("torn")), UnreadableParent)
    shared_api.request("DELETE", path("torn"))
    again = await written(store, replace(stored, resource_version=""))
    assert await store.load(unit("torn")) == again, "what is known of the unit is stored anew, whole"
    assert await store.delete(again) is None


def test_a_renamed_cluster_finds_its_parents() -> None:
    body = {
        "metadata": {
            "name": parent_name(unit("chat")),
            "annotations": {"applyset.kubernetes.io/tooling": "gitops/v1"},
            "resourceVersion": "4",
        },
        "data": {"record": encode_record(record()).decode()},
    }
    read = read_parent(body, {}, cluster=ClusterName("dgx-z"))
    assert isinstance(read, ParentRecord)
    assert read.unit.cluster == "dgx-z"
    assert read.members == tuple(sorted(record().members))
