"""The engine's own decisions: which head is taken, when again, and what a defect may not end. No cluster answers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitops.cluster.connection import Connection
from gitops.cluster.errors import RequestFailed, unreachable
from gitops.model.clusters import Cluster
from gitops.model.identity import ClusterName, Commit
from gitops.reconcile.engine import Engine
from gitops.source.errors import SourceError, SourceErrorClass
from gitops.source.sources import FolderSource

DOCUMENTS = {
    "gitops.yaml": "apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata: {name: demo}\n",
    "clusters/a.yaml": "apiVersion: gitops/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {credentials: a}\n",
    "bundles/web/bundle.yaml": (
        "apiVersion: gitops/v1alpha1\nkind: Bundle\nmetadata: {name: web}\nspec: {manifests: [manifests/]}\n"
    ),
    "bundles/web/manifests/one.yaml": (
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one, namespace: shop}\ndata: {key: one}\n"
    ),
}


class NoCluster:
    async def open(self, cluster: Cluster) -> Connection:
        raise RequestFailed(unreachable("nobody is there"))

    def changed(self, cluster: Cluster) -> bool:
        return False


async def _no_pause(seconds: float) -> None:
    """The tests' folders are never half written."""


class Folder(FolderSource):
    """A folder that counts looks, and fails when told to."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, status_folder=path.parent / "status", pause=_no_pause)
        self.path = path
        self.looks = 0
        self.failing: Exception | None = None

    def write(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)

    async def look(self) -> tuple[Commit | None, str]:
        self.looks += 1
        if self.failing is not None:
            failing, self.failing = self.failing, None
            raise failing
        return await super().look()


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    (tmp_path / "repository").mkdir()
    made = Folder(tmp_path / "repository")
    made.write(DOCUMENTS)
    return made


@contextlib.asynccontextmanager
async def running(context: Any, folder: Folder, **options: Any) -> AsyncIterator[Engine]:
    wanted = {"first_contact": 0.01, "poll_interval": 3600.0, "poll_jitter": 0.0, "shutdown": 0.2, **options}
    engine = Engine(folder, NoCluster(), replace(context, options=replace(context.options, **wanted)))
    stop = asyncio.Event()
    task = asyncio.create_task(engine.run(stop))
    try:
        yield engine
        assert not task.done(), "the engine ended"
    finally:
        stop.set()
        await task
        await folder.close()


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (what is waited for can only be seen from outside)
            await asyncio.sleep(0.005)


def values(engine: Engine) -> list[str]:
    """What the ConfigMap of the assigned head says."""
    assignment = engine.workers[ClusterName("a")].state.assignment
    units = () if assignment is None else assignment.units.values()
    return [o.body["data"]["key"] for unit in units for o in unit.objects]


async def test_the_poll_wakes_the_loop_from_the_loop(
    context: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The scheduler runs plain functions in a thread; an event that is set there wakes nobody, or breaks the loop."""
    threads: set[str] = set()
    request = Engine.request_fetch

    def noted(self: Engine) -> None:
        threads.add(threading.current_thread().name)
        request(self)

    monkeypatch.setattr(Engine, "request_fetch", noted)
    async with running(context, folder, poll_interval=0.05):
        await until(lambda: folder.looks > 3)
    assert threads == {threading.main_thread().name}


async def test_a_defect_in_a_look_ends_nothing(context: Any, folder: Folder) -> None:
    folder.failing = RuntimeError("defect")
    async with running(context, folder) as engine:
        await until(lambda: "RuntimeError" in engine.health().source_problem)
        engine.request_fetch()
        await until(lambda: engine.health().head is not None)
        assert engine.health().source_problem == ""


async def test_the_log_tells_when_the_repository_cannot_be_read_and_when_it_can_again_and_no_quiet_look(
    context: Any, folder: Folder, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", logger="gitops.reconcile.engine")
    async with running(context, folder) as engine:
        await until(lambda: engine.health().head)
        caplog.clear()
        for failing in (None, SourceError(SourceErrorClass.UNREACHABLE, "no route"), None, None):
            folder.failing = failing
            looks = folder.looks
            engine.request_fetch()
            await until(lambda seen=looks: folder.looks > seen)
            await until(lambda: not engine._busy)
    lines = [r.message for r in caplog.records]
    assert lines == [
        "the repository cannot be read, the last good head stays: no route",
        "the repository can be read again",
    ]


async def test_a_renamed_reconciler_is_refused_and_the_last_good_head_stays(context: Any, folder: Folder) -> None:
    """Its objects would be labelled anew, leave the watches and be fought for."""
    async with running(context, folder) as engine:
        await until(lambda: engine.workers and values(engine) == ["one"])
        good = engine.health().head
        one = DOCUMENTS["bundles/web/manifests/one.yaml"]
        other = one.replace("key: one", "key: two")
        renamed = DOCUMENTS["gitops.yaml"].replace("demo", "renamed")
        folder.write({"gitops.yaml": renamed, "bundles/web/manifests/one.yaml": other})
        looks = folder.looks
        engine.request_fetch()
        await until(lambda: folder.looks > looks and not engine.looking)
        assert (engine.health().head, values(engine)) == (good, ["one"])
        engine._parents_known()  # what asks for the head again gets the last good one
        await until(lambda: not engine.looking)
        assert (engine.health().head, values(engine)) == (good, ["one"])
        folder.write({"gitops.yaml": DOCUMENTS["gitops.yaml"]})
        engine.request_fetch()
        await until(lambda: values(engine) == ["two"])


async def test_parents_that_are_read_while_a_head_is_compiled_are_taken_in_before_it_is_assigned(
    context: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They pin instances: a head that was placed without them could move one, and delete it where it was."""
    async with running(context, folder) as engine:
        compile_, compiled = engine._heads.compile, []

        async def compiling(*args: Any, **kwargs: Any) -> Any:
            compiled.append(await compile_(*args, **kwargs))
            if len(compiled) == 1:
                engine._parents_known()
            return compiled[-1]

        monkeypatch.setattr(engine._heads, "compile", compiling)
        await until(lambda: engine.workers and values(engine) == ["one"])
        assert len(compiled) == 2


async def test_parents_that_are_read_while_a_head_is_assigned_keep_it_from_being_given_out(
    context: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(context, folder) as engine:
        of, given = engine._consents.of, []

        async def consenting(worker: Any, head: Commit) -> Any:
            given.append(worker.state.assignment)
            if len(given) == 1:
                engine._parents_known()
            return await of(worker, head)

        monkeypatch.setattr(engine._consents, "of", consenting)
        await until(lambda: engine.workers and values(engine) == ["one"])
        assert given == [None, None], "nothing was given out before the head was placed anew"


async def test_a_cluster_whose_document_cannot_be_read_is_not_let_go(context: Any, folder: Folder) -> None:
    async with running(context, folder) as engine:
        await until(lambda: engine.workers and values(engine) == ["one"])
        before = engine.health().head
        folder.write({"clusters/a.yaml": "a: [\n", "bundles/web/manifests/two.yaml": "a: [\n"})
        engine.request_fetch()
        await until(lambda: engine.health().head != before and not engine.looking)
        assert values(engine) == ["one"]
        assert not engine._leaving


async def test_a_head_that_could_not_be_compiled_again_is_tried_at_the_next_look(
    context: Any, folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parents were read and the repository could not be: what they change must not be forgotten."""
    async with running(context, folder) as engine:
        await until(lambda: engine.workers and values(engine) == ["one"])
        compile_, calls = engine._heads.compile, []

        async def failing_once(*args: Any, **kwargs: Any) -> Any:
            calls.append(args)
            if len(calls) == 1:
                raise SourceError(SourceErrorClass.CORRUPT, "an object is missing")
            return await compile_(*args, **kwargs)

        monkeypatch.setattr(engine._heads, "compile", failing_once)
        engine._parents_known()
        await until(lambda: len(calls) == 1 and not engine.looking)
        engine.request_fetch()
        await until(lambda: len(calls) == 2)
