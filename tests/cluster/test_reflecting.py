"""The reflector against a scripted transport, in virtual time."""

import asyncio
import contextlib
import random
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
from cluster_kit.watch_script import (
    GVK,
    OPEN,
    PATH,
    Answer,
    Lines,
    Script,
    page,
    read,
    reflector,
    refusal,
    status,
    thing,
    told,
    watch,
)

from gitops.cluster.collection import Collection
from gitops.cluster.errors import ErrorClass, RequestFailed, unreachable
from gitops.cluster.reflecting import (
    Changed,
    Reflector,
    ReflectorSettings,
    Stale,
    Synced,
    Vanished,
)
from gitops.model.identity import ObjectRef

pytestmark = [pytest.mark.looptime, pytest.mark.asyncio]

# -- listing ---------------------------------------------------------------------------------------------------------


async def test_lists_in_pages_then_watches_from_the_list_s_version() -> None:
    script = Script(page(thing("a", 1), token="t1"), page(thing("b", 2), version=10), OPEN)
    events = await read(reflector(script, selector="gitops/reconciler=main"), within=100)
    assert told(events) == ["a@1", "b@2", "synced 2"]
    first, second, opened = (call.query for call in script.calls)
    assert first == {"limit": "500", "labelSelector": "gitops/reconciler=main"}
    assert second == {**first, "continue": "t1"}
    assert opened["resourceVersion"] == "10"
    assert opened["allowWatchBookmarks"] == "true"
    assert 240 <= int(opened["timeoutSeconds"]) <= 300
    assert opened["labelSelector"] == "gitops/reconciler=main"


async def test_items_of_a_list_get_their_version_and_kind() -> None:
    events = await read(reflector(Script(page(thing("a", 1)), OPEN)), within=10)
    assert isinstance(events[0], Changed)
    assert (events[0].obj["apiVersion"], events[0].obj["kind"]) == ("x.example/v1", "Thing")


async def test_a10_an_expired_page_restarts_the_list_and_concludes_nothing() -> None:
    script = Script(
        page(thing("a", 1), thing("b", 1)),
        watch(("ERROR", status(410, "Expired"))),
        page(thing("a", 1), token="t"),
        refusal(410, "Expired"),
        page(thing("b", 2), token="t"),
        page(thing("c", 3), version=20),
        OPEN,
    )
    events = await read(reflector(script), within=100)
    assert told(events) == ["a@1", "b@1", "synced 2", "a@1", "b@2", "c@3", "gone a", "synced 2"]
    assert events[-2] == Vanished(ObjectRef("x.example", "Thing", "n", "a"), "uid-a")
    assert script.watches[-1].query["resourceVersion"] == "20"


async def test_a10_a_list_that_fails_midway_deletes_nothing() -> None:
    script = Script(
        page(thing("a", 1), thing("b", 1)),
        watch(("ERROR", status(410, "Expired"))),
        page(thing("b", 2), token="t"),
        refusal(500, "InternalError"),
    )
    events = await read(reflector(script), within=100)
    assert told(events) == ["a@1", "b@1", "synced 2", "b@2", "stale retry"]


class Big:
    """A collection of 20,000 things of a kilobyte in pages of 500; the token for page 17 expires once."""

    PAGES, LIMIT = 40, 500

    def __init__(self) -> None:
        self.expired = False
        filler = "x" * 800
        template = (
            '{"metadata":{"namespace":"n","name":"t%d","uid":"u%d","resourceVersion":"7"},"spec":"' + filler + '"}'
        )
        self._thing = template
        self.page_size = len(self.page(0))

    def page(self, number: int) -> bytes:
        rest = f'"continue":"{number + 1}",' if number + 1 < self.PAGES else ""
        items = ",".join(self._thing % (i, i) for i in range(number * self.LIMIT, (number + 1) * self.LIMIT))
        return f'{{"metadata":{{{rest}"resourceVersion":"10"}},"items":[{items}]}}'.encode()

    async def request(self, method: str, path: str, *, query: Mapping[str, str], **_: Any) -> Answer:
        assert query["limit"] == str(self.LIMIT)
        number = int(query.get("continue", "0"))
        if number == 17 and not self.expired:
            self.expired = True
            return refusal(410, "Expired")
        return Answer(200, self.page(number))

    def stream(self, path: str, **_: Any) -> Any:
        raise AssertionError("nothing is watched here")


async def test_a10_of_twenty_thousand_objects_one_page_at_a_time_is_in_memory() -> None:
    big = Big()
    source = Reflector(big, Collection(GVK, PATH))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        async with contextlib.aclosing(source.events()) as events:
            delivered = 0
            async for event in events:
                if isinstance(event, Synced):
                    break
                assert isinstance(event, Changed), "nothing is concluded from the pages before the token expired"
                delivered += 1
            kept, peak = (n - before for n in tracemalloc.get_traced_memory())
    finally:
        tracemalloc.stop()
    assert (event.objects, delivered) == (20_000, 20_000 + 17 * 500)
    assert (source.stats.pages, source.stats.lists, source.stats.expirations) == (57, 1, 1)
    assert kept < 20_000 * 500, "of an object only who it is, not what"
    assert peak - kept < 4 * big.page_size, "the body, its pieces while it is made, and what is decoded of it"


async def test_a_token_that_always_expires_is_a_failure_with_backoff() -> None:
    script = Script(*[step for _ in range(4) for step in (page(thing("a", 1), token="t"), refusal(410, "Expired"))])
    events = await read(reflector(script), within=100)
    assert told(events)[-1] == "stale expired"


@pytest.mark.parametrize(
    "body",
    [b"<html>", b"{}", b'{"metadata":{"resourceVersion":"3"}}', b'{"metadata":{},"items":[]}', b"", b'{"items":[1]}'],
)
async def test_an_answer_that_is_no_list_is_no_absence(body: bytes) -> None:
    script = Script(page(thing("a", 1)), watch(("ERROR", status(410, "Expired"))), Answer(200, body))
    events = await read(reflector(script), within=100)
    assert told(events) == ["a@1", "synced 1", "stale unreachable"]


@pytest.mark.parametrize(
    ("code", "cls"),
    [
        (401, ErrorClass.UNAUTHORIZED),
        (403, ErrorClass.FORBIDDEN),
        (429, ErrorClass.RETRY),
        (503, ErrorClass.RETRY),
    ],
)
async def test_a03_an_error_is_stale_and_never_an_absence(code: int, cls: ErrorClass) -> None:
    script = Script(
        page(thing("a", 1)), watch(("ERROR", status(410, "Expired"))), refusal(code), page(thing("a", 1)), OPEN
    )
    events = await read(reflector(script), within=1000)
    assert told(events) == ["a@1", "synced 1", f"stale {cls}", "a@1", "fresh", "synced 1"]


async def test_a_kind_that_is_not_served_is_stale_by_name_and_asked_for_again() -> None:
    script = Script(Answer(404, b"404 page not found\n"), page(), OPEN)
    events = await read(reflector(script), within=100)
    assert isinstance(events[0], Stale)
    assert events[0].error.reason == "NotServed"
    assert events[0].since == 0.0
    assert told(events)[1:] == ["fresh", "synced 0"]


# -- watching --------------------------------------------------------------------------------------------------------


async def test_changes_and_deletions_are_delivered_in_order() -> None:
    script = Script(
        page(thing("a", 1)),
        watch(("ADDED", thing("b", 11)), ("MODIFIED", thing("a", 12)), ("DELETED", thing("b", 13)), end="hang"),
    )
    source = reflector(script)
    assert told(await read(source, within=10)) == ["a@1", "synced 1", "b@11", "a@12", "-b"]
    assert len(source) == 1


async def test_a07_duplicates_are_dropped_and_unknown_types_ignored() -> None:
    script = Script(
        page(thing("a", 1)),
        watch(
            ("ADDED", thing("a", 1)),
            ("MODIFIED", thing("a", 2)),
            ("MODIFIED", thing("a", 2)),
            ("NEW", thing("z", 3)),
            end="hang",
        ),
    )
    source = reflector(script)
    assert told(await read(source, within=10)) == ["a@1", "synced 1", "a@2"]
    assert source.stats.duplicates == 2


async def test_a07_what_a_watch_lost_or_swapped_the_next_list_puts_right() -> None:
    script = Script(
        page(thing("a", 1), thing("lost", 1)),
        watch(("MODIFIED", thing("a", 12)), ("MODIFIED", thing("a", 11)), end="hang"),
        page(thing("a", 12), thing("new", 13), version=13),
        OPEN,
    )
    source = reflector(script)
    asyncio.get_running_loop().call_later(50, source.request_relist)
    assert told(await read(source, within=100))[3:] == ["a@12", "a@11", "a@12", "new@13", "gone lost", "synced 2"]


async def test_a07_a_late_deletion_does_not_hide_the_object_that_came_after_it() -> None:
    script = Script(
        page(thing("a", 1, uid="one")),
        watch(("ADDED", thing("a", 12, uid="two")), ("DELETED", thing("a", 11, uid="one")), end="hang"),
    )
    source = reflector(script)
    await read(source, within=10)
    assert len(source) == 1


async def test_a_watch_that_ends_goes_on_from_the_last_version_without_a_list() -> None:
    bookmark = {"kind": "Thing", "metadata": {"resourceVersion": "30"}}
    script = Script(
        page(),
        watch(("MODIFIED", thing("a", 11))),
        watch(("BOOKMARK", bookmark)),
        watch(after=190.0),
        OPEN,
    )
    source = reflector(script)
    assert told(await read(source, within=400)) == ["synced 0", "a@11"]
    assert [call.query["resourceVersion"] for call in script.watches] == ["10", "11", "30", "30"]
    assert len(script.lists) == 1
    assert source.stats.bookmarks == 1


async def test_a_broken_watch_goes_on_soon_and_quietly() -> None:
    script = Script(
        page(), watch(("MODIFIED", thing("a", 11)), end="broken"), watch(("MODIFIED", thing("a", 12)), end="hang")
    )
    assert told(await read(reflector(script), within=100)) == ["synced 0", "a@11", "a@12"]
    assert script.watches[1].query["resourceVersion"] == "11"
    assert script.watches[1].at <= 10.5


async def test_an_idle_watch_that_breaks_late_is_no_outage() -> None:
    script = Script(page(), watch(end="broken", after=60.0), OPEN)
    assert told(await read(reflector(script), within=100)) == ["synced 0"]


async def test_big_lines_and_broken_lines() -> None:
    big = thing("big", 11, data="x" * 3_000_000)
    script = Script(page(), watch(("ADDED", big), ("RAW", {"text": '{"type":"ADD'})), page(big, version=11), OPEN)
    events = await read(reflector(script), within=100)
    assert told(events) == ["synced 0", "big@11", "big@11", "synced 1"]


# -- expiry, silence, outages ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "expired",
    [
        pytest.param(refusal(410, "Expired"), id="http-410"),
        pytest.param(watch(("ERROR", status(410, "Expired"))), id="error-event"),
        pytest.param(watch(("ERROR", status(410, "Gone"))), id="gone-event"),
    ],
)
async def test_a01_fact_35_an_expired_version_is_listed_again(expired: Answer | Lines) -> None:
    script = Script(
        page(thing("a", 1), thing("b", 1)),
        watch(("MODIFIED", thing("a", 11))),
        expired,
        page(thing("a", 40), version=50),
        OPEN,
    )
    source = reflector(script)
    assert told(await read(source, within=100)) == ["a@1", "b@1", "synced 2", "a@11", "a@40", "gone b", "synced 1"]
    assert [call.query["resourceVersion"] for call in script.watches] == ["10", "11", "50"]
    assert source.stats.expirations == 1


async def test_a01_versions_that_always_expire_make_no_hot_loop() -> None:
    rounds = 60
    script = Script(
        *[s for _ in range(rounds) for s in (page(thing("a", 1)), watch(("ERROR", status(410))))], page(), OPEN
    )
    await read(reflector(script), within=3600)
    assert script.calls[-1].at > 5 * rounds
    assert len([call for call in script.calls if call.at < 10]) < 30


async def test_fact_35_all_kinds_do_not_list_in_the_same_moment() -> None:
    starts = []
    for seed in range(20):
        healthy = watch(("MODIFIED", thing("a", 11)), ("ERROR", status(410)))
        script = Script(page(), healthy, page(), OPEN)
        before = asyncio.get_running_loop().time()
        await read(reflector(script, rng=random.Random(seed)), within=20)
        starts.append(script.lists[1].at - before)
    assert max(starts) - min(starts) > 0.5
    assert max(starts) <= 1.0


async def test_a02_fact_36_a_silent_watch_is_given_up_for_a_list() -> None:
    script = Script(page(thing("a", 1), version=900), watch(end="silence"), page(thing("b", 1), version=20), OPEN)
    source = reflector(script)
    assert told(await read(source, within=300)) == ["a@1", "synced 1", "b@1", "gone a", "synced 1"]
    assert script.lists[1].at >= 180
    assert script.watches[1].query["resourceVersion"] == "20", "the future version is forgotten"
    assert source.stats.silences == 1


async def test_a02_a_transport_that_hangs_is_given_up_too() -> None:
    script = Script(page(), OPEN, page(thing("a", 1)), OPEN)
    source = reflector(script)
    assert told(await read(source, within=300)) == ["synced 0", "a@1", "synced 1"]
    assert source.heard_at == pytest.approx(1205.0, abs=3)


async def test_an_outage_is_told_once_with_the_last_sign_of_life() -> None:
    down = RequestFailed(unreachable("refused"))
    script = Script(
        page(), watch(("MODIFIED", thing("a", 11)), end="broken", after=100.0), *[down] * 6, watch(end="hang")
    )
    source = reflector(script)
    events = await read(source, within=1000)
    assert told(events) == ["synced 0", "a@11", "stale unreachable", "fresh"]
    assert events[2] == Stale(1000.0, down.error)
    assert source.stale is None
    gaps = [b.at - a.at for a, b in zip(script.watches[2:], script.watches[3:], strict=False)]
    assert gaps == sorted(gaps)
    assert gaps[-1] > 4 * gaps[0]


async def test_another_error_is_told_again() -> None:
    script = Script(RequestFailed(unreachable("refused")), refusal(401), refusal(401), page(), OPEN)
    assert told(await read(reflector(script), within=1000)) == [
        "stale unreachable",
        "stale unauthorized",
        "fresh",
        "synced 0",
    ]


async def test_the_server_s_pause_is_kept() -> None:
    script = Script(refusal(429, "TooManyRequests", **{"Retry-After": "45"}), page(), OPEN)
    await read(reflector(script), within=100)
    assert script.lists[1].at >= 45


async def test_watches_that_end_at_once_become_an_outage() -> None:
    at_once = watch(after=0.0)
    script = Script(page(), at_once, at_once, at_once, watch(end="hang"))
    events = await read(reflector(script), within=100)
    assert told(events) == ["synced 0", "stale unreachable", "fresh"]
    assert script.watches[-1].at > 1


async def test_an_error_event_of_another_kind_lists_again() -> None:
    script = Script(page(), watch(("ADDED", thing("a", 11)), ("ERROR", status(500))), page(thing("b", 12)), OPEN)
    assert told(await read(reflector(script), within=100)) == ["synced 0", "a@11", "b@12", "gone a", "synced 1"]


# -- asking for a list -----------------------------------------------------------------------------------------------


async def test_fact_18_a_list_on_request_delivers_everything_at_equal_versions() -> None:
    script = Script(page(thing("a", 1)), OPEN, page(thing("a", 1, spec={})), OPEN)
    source = reflector(script)
    asyncio.get_running_loop().call_later(30, source.request_relist)
    assert told(await read(source, within=100)) == ["a@1", "synced 1", "a@1", "synced 1"]
    assert script.lists[1].at == pytest.approx(30)
    assert script.open == 0, "the old watch is closed"


async def test_a_request_cuts_a_backoff_short() -> None:
    down = RequestFailed(unreachable("refused"))
    script = Script(*[down] * 12, page(), OPEN)
    source = reflector(script)

    def ask() -> None:
        source.request_relist()
        source.request_relist()

    asyncio.get_running_loop().call_later(101, ask)
    await read(source, within=200)
    assert any(call.at == pytest.approx(101) for call in script.lists)


async def test_a_request_during_a_list_lists_once_more() -> None:
    script = Script(page(thing("a", 1), token="t"), page(thing("b", 1)), page(thing("c", 1)), OPEN)
    source = reflector(script)
    seen = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(10), contextlib.aclosing(source.events()) as events:
            async for event in events:
                seen.append(event)
                if len(seen) == 1:
                    source.request_relist()
    assert told(seen) == ["a@1", "b@1", "synced 2", "c@1", "gone a", "gone b", "synced 1"]


# -- projection, ends ------------------------------------------------------------------------------------------------


async def test_objects_are_reduced_while_decoding() -> None:
    def names_only(obj: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": obj["metadata"]}

    script = Script(page(thing("a", 1, spec={"x": 1})), watch(("MODIFIED", thing("a", 2, spec={})), end="hang"))
    events = await read(reflector(script, project=names_only), within=10)
    assert [set(e.obj) for e in events if isinstance(e, Changed)] == [{"metadata"}, {"metadata"}]


async def test_metadata_only_is_asked_for_by_the_accept_header() -> None:
    script = Script(page(), OPEN)
    await read(reflector(script, metadata_only=True), within=10)
    assert [call.accept.partition(";")[2].partition(";")[0] for call in script.calls] == [
        "as=PartialObjectMetadataList",
        "as=PartialObjectMetadata",
    ]


async def test_cancellation_ends_it_at_once_and_closes_the_watch() -> None:
    script = Script(page(), OPEN)
    source = reflector(script)
    task = asyncio.create_task(read(source))
    await asyncio.sleep(5)
    assert script.open == 1
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert script.open == 0
    assert asyncio.get_running_loop().time() == 5


async def test_leaving_in_the_middle_closes_the_watch_and_it_may_be_read_again() -> None:
    script = Script(page(), watch(("ADDED", thing("a", 11)), end="hang"), watch(("ADDED", thing("b", 12)), end="hang"))
    source = reflector(script)
    async with contextlib.aclosing(source.events()) as events:
        async for event in events:
            if isinstance(event, Changed):
                break
    assert script.open == 0
    assert told(await read(source, within=10)) == ["b@12"]
    assert script.watches[1].query["resourceVersion"] == "11"


async def test_it_has_one_reader_at_a_time() -> None:
    source = reflector(Script(page(), OPEN))
    async with contextlib.aclosing(source.events()) as events:
        await anext(events)
        with pytest.raises(RuntimeError, match="being read already"):
            await anext(source.events())


async def test_settings_reach_the_wire() -> None:
    script = Script(page(), OPEN)
    settings = ReflectorSettings(page_limit=7, watch_seconds=(60, 60))
    await read(reflector(script, settings=settings), within=10)
    assert script.lists[0].query["limit"] == "7"
    assert script.watches[0].query["timeoutSeconds"] == "60"
