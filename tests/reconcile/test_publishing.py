"""When status is pushed: debounce, interval, refusals, a lost branch. In virtual time."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import pytest

from gitops.reconcile.publishing import LONGEST_PAUSE, StatusWriter
from gitops.reconcile.reporting import Reporter
from gitops.source.errors import SourceErrorClass
from gitops.source.statuses import PushKind, PushOutcome

pytestmark = [pytest.mark.looptime]

FILE = "status/units/a/bundle.base.yaml"
PUSHED = PushOutcome(kind=PushKind.PUSHED, sentence="")
REFUSED = PushOutcome(kind=PushKind.REFUSED, sentence="protected branch")
FAILED = PushOutcome(kind=PushKind.FAILED, sentence="no route", error_class=SourceErrorClass.UNREACHABLE)
LOCKED = PushOutcome(kind=PushKind.FAILED, sentence="wrong password", error_class=SourceErrorClass.AUTH)


class Branch:
    """A status store: `answers` are given in order, then every push succeeds. `pushes` are (second, paths)."""

    def __init__(self, files: Mapping[str, bytes] | None = None) -> None:
        self.content = dict(files or {})
        self.answers: list[PushOutcome] = []
        self.pushes: list[tuple[float, list[str]]] = []

    def contents(self, folder: str = "") -> dict[str, bytes]:
        return {path: content for path, content in sorted(self.content.items()) if path.startswith(f"{folder}/")}

    def commit_and_push(self, changes: Mapping[str, bytes | None], message: str) -> PushOutcome:
        self.pushes.append((asyncio.get_running_loop().time(), sorted(changes)))
        answer = self.answers.pop(0) if self.answers else PUSHED
        if answer.written:
            if answer.restarted:
                self.content.clear()
            self.content |= {path: content for path, content in changes.items() if content is not None}
        return answer

    # source
    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)

    @property
    def times(self) -> list[float]:
        return [at for at, _ in self.pushes]


class Office:
    """A writer on a branch; `say` changes a file."""

    def __init__(self, context: Any, branch: Branch) -> None:
        self.branch = branch
        self.reporter = Reporter(context)
        self.renders = 0
        self.writer = StatusWriter(self.reporter, context, source=branch, render=self._render)  # type: ignore[arg-type]

    async def _render(self) -> bool:
        self.renders += 1
        return True

    def say(self, content: bytes | None, path: str = FILE) -> None:
        self.reporter._put(path, content)
        self.writer.dirty()


@pytest.fixture
def branch() -> Branch:
    return Branch({"status/README.md": b"readme", "notes/other.md": b"of others"})


@contextlib.asynccontextmanager
async def running(context: Any, branch: Branch) -> AsyncIterator[Office]:
    context = dataclasses.replace(
        context, options=dataclasses.replace(context.options, status_debounce=0.5, status_interval=10)
    )
    office = Office(context, branch)
    await office.writer.use(branch)
    task = asyncio.create_task(office.writer.run())
    try:
        yield office
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_only_our_folders_are_read(context: Any, branch: Branch) -> None:
    async with running(context, branch) as office:
        assert list(office.reporter.files) == ["status/README.md"]


async def test_at_rest_nothing_is_rendered_or_pushed(context: Any, branch: Branch) -> None:
    async with running(context, branch) as office:
        await asyncio.sleep(3600)
        assert (office.renders, branch.pushes, office.writer.pending) == (0, [], False)


async def test_changes_are_collected_for_a_moment_and_pushed_together(context: Any, branch: Branch) -> None:
    async with running(context, branch) as office:
        office.say(b"1")
        await asyncio.sleep(0.4)
        office.say(b"2", "status/README.md")
        await asyncio.sleep(5)
    assert branch.pushes == [(0.5, ["status/README.md", FILE])]


async def test_there_is_one_push_an_interval_at_most(context: Any, branch: Branch) -> None:
    async with running(context, branch) as office:
        for number in range(100):
            office.say(str(number).encode())
            await asyncio.sleep(0.3)
        await asyncio.sleep(20)
        assert office.reporter.pending == {}
    assert branch.content[FILE] == b"99"
    assert all(b - a >= 10 for a, b in zip(branch.times, branch.times[1:], strict=False))
    assert len(branch.pushes) <= 5


async def test_a_change_that_means_nothing_is_not_pushed(context: Any, branch: Branch) -> None:
    async with running(context, branch) as office:
        office.say(b"readme", "status/README.md")
        await asyncio.sleep(60)
    assert branch.pushes == []


async def test_a_failed_push_keeps_everything_and_is_tried_again_each_interval(context: Any, branch: Branch) -> None:
    branch.answers = [FAILED, FAILED]
    async with running(context, branch) as office:
        office.say(b"1")
        await asyncio.sleep(1)
        assert office.writer.problem == "no route"
        assert office.writer.pending
        await asyncio.sleep(60)
        assert (office.writer.problem, office.writer.pending) == ("", False)
    assert branch.times == [0.5, 10.5, 20.5]


@pytest.mark.parametrize("answer", [REFUSED, LOCKED], ids=["refused", "locked out"])
async def test_a_refused_push_is_repeated_ever_more_seldom(context: Any, branch: Branch, answer: PushOutcome) -> None:
    branch.answers = [answer] * 100
    async with running(context, branch) as office:
        office.say(b"1")
        await asyncio.sleep(2000)
        assert office.writer.problem == answer.sentence
    pauses = [b - a for a, b in zip(branch.times, branch.times[1:], strict=False)]
    assert pauses == sorted(pauses)
    assert pauses[0] == pytest.approx(19.5)
    assert pauses[-1] == pytest.approx(LONGEST_PAUSE + 0.5)


async def test_after_a_refusal_was_mended_the_interval_is_the_usual_one(context: Any, branch: Branch) -> None:
    branch.answers = [REFUSED] * 4
    async with running(context, branch) as office:
        office.say(b"1")
        await asyncio.sleep(400)
        assert (office.writer.problem, len(branch.pushes)) == ("", 5)
        mended = len(branch.pushes)
        for number in range(100):
            office.say(str(number).encode())
            await asyncio.sleep(0.5)
    assert len(branch.pushes) - mended >= 4, "a refusal of the past slows nothing down"


async def test_a_new_head_ends_the_long_pause_after_refusals(context: Any, branch: Branch) -> None:
    branch.answers = [REFUSED] * 6
    async with running(context, branch) as office:
        office.say(b"1")
        await asyncio.sleep(700)
        before = len(branch.pushes)
        office.writer.hurry()
        await asyncio.sleep(1)
        assert len(branch.pushes) == before + 1


async def test_a_branch_that_was_lost_is_written_anew_as_a_whole(context: Any, branch: Branch) -> None:
    branch.answers = [dataclasses.replace(PUSHED, restarted=True)]
    async with running(context, branch) as office:
        office.say(b"1")
        await asyncio.sleep(1)
        assert office.reporter.pending == {}
    assert branch.content == {FILE: b"1", "status/README.md": b"readme"}


async def test_and_also_when_that_second_push_fails(context: Any, branch: Branch) -> None:
    branch.answers = [dataclasses.replace(PUSHED, restarted=True), FAILED]
    async with running(context, branch) as office:
        office.say(b"1")
        await asyncio.sleep(30)
        assert not office.writer.pending
    assert branch.content == {FILE: b"1", "status/README.md": b"readme"}


async def test_before_there_is_a_branch_nothing_is_lost(context: Any, branch: Branch) -> None:
    office = Office(context, branch)
    office.say(b"1")
    assert await office.writer.flush() is False
    assert office.writer.pending
    office.reporter.pending.clear()
    await office.writer.use(branch)
    office.say(b"1")
    assert await office.writer.flush() is True
    assert branch.content[FILE] == b"1"


async def test_the_title_of_a_commit_names_what_changed(context: Any, branch: Branch) -> None:
    titles: list[str] = []
    push = branch.commit_and_push

    def noted(changes: Mapping[str, bytes | None], message: str) -> PushOutcome:
        titles.append(message)
        return push(changes, message)

    branch.commit_and_push = noted  # type: ignore[method-assign]
    async with running(context, branch) as office:
        office.say(b"1", "status/README.md")
        await asyncio.sleep(20)
        office.say(b"1", "status/units/a/z.yaml")
        office.say(b"1", "status/units/a/b.yaml")
        await asyncio.sleep(20)
    assert titles == ["Status: 1 file", "Status of a/b and 1 more"]


async def test_pushes_that_are_refused_for_days_stay_one_every_few_minutes(context: Any, branch: Branch) -> None:
    """The doubling must end: two to the thousandth is no float."""
    branch.answers = [REFUSED] * 2000
    async with running(context, branch) as office:
        office.say(b"1")
        await asyncio.sleep(LONGEST_PAUSE * 2100)
        assert branch.content[FILE] == b"1"
        assert not office.writer.pending


async def test_a_defect_in_a_push_is_told_and_ends_nothing(
    context: Any, branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(changes: Mapping[str, bytes | None], message: str) -> PushOutcome:
        raise RuntimeError("defect")

    async with running(context, branch) as office:
        with monkeypatch.context() as patched:
            patched.setattr(branch, "commit_and_push", crash)
            office.say(b"1")
            await asyncio.sleep(30)
            assert "RuntimeError" in office.writer.problem
        await asyncio.sleep(30)
        assert (office.writer.problem, branch.content[FILE]) == ("", b"1")
