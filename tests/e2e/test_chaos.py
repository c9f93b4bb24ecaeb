"""Random commits, foreign hands, faults and crashes on a real API server; afterwards everything must be exactly right.

Each seed is one story of random steps. What must hold does not depend on the story: what Git declares is live with the
declared values, each object with our label is a member of exactly one parent with its uid, nothing foreign was touched,
an object that stayed declared keeps its uid, nothing was deleted that was declared at that moment, and at rest there
are no calls. A failure prints the seed and the story.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import time
from collections.abc import Callable

import pytest
from controlplane_kit.client import ApiFailure
from controlplane_kit.controlplane import ControlPlane
from controlplane_kit.gitserver import Repository
from fleet_kit.chaos import Chaos
from fleet_kit.fixtures import StartFleet, forget
from fleet_kit.stories import Story

pytestmark = [pytest.mark.controlplane, pytest.mark.e2e, pytest.mark.timeout(240)]

STEPS = 36
CONVERGE = 75.0
"""Seconds after the last fault: back-offs of what kept failing may have to end."""
MOMENT = 0.1
"""A DELETE that arrives so soon after a new head was sent before it."""
QUIET = 2.0
"""Seconds without a call that count as rest."""


@pytest.fixture
def plane(planes: Callable[..., ControlPlane]) -> ControlPlane:
    made = planes("chaos")
    forget(made)
    return made


SEEDS = tuple(map(int, os.environ.get("CHAOS_SEEDS", "3 5 14 19").split()))
"""A few that once found something; CHAOS_SEEDS="1 2 3" tries others."""


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_any_story_everything_is_exactly_as_declared(
    seed: int, fleet: StartFleet, repo: Repository, plane: ControlPlane
) -> None:
    namespaces = (f"chaos-{seed}-a", f"chaos-{seed}-b")
    for namespace in namespaces:
        plane.create_namespace(namespace)
    story = Story(seed, random.Random(seed), namespaces, f"s{seed}.chaos.example.com")
    chaos = Chaos(story, repo, plane, fleet)
    chaos.make_foreign()
    before = chaos.control_group()
    heads = asyncio.create_task(chaos.watch_heads())
    try:
        await _tell(chaos)
        await _converge(chaos)
        await _rest(chaos)
        assert chaos.control_group() == before, "something foreign was touched"
        assert not [d for d in chaos.deletes if d.declared and d.age > MOMENT], "deleted while declared"
        assert not [d for d in chaos.deletes if d.age > MOMENT and d.ref in story.keeps[d.commit]], (
            "deleted while in Git"
        )
    except BaseException:
        print(f"seed {seed}", *story.lines, sep="\n")
        for worker in chaos.running.engine.workers.values():
            print(worker.name, worker.contact, "may write" if worker.may_write else "may not write")
            for key, unit in worker.state.units.items():
                print(key, unit.outcome)
        print("calls about what is wrong, or the last ones:", *_about(chaos), sep="\n")
        raise
    finally:
        heads.cancel()


def _about(chaos: Chaos) -> list[str]:
    """The requests about objects that are wrong, with their times in the story."""
    with contextlib.suppress(OSError, ApiFailure):
        paths = {
            chaos.story.path(ref)
            for line in chaos.wrong()
            if (ref := next((r for r in chaos.everything if line.startswith(str(r))), None)) is not None
        }
        found = [r for r in list(chaos.proxy.requests) if r.path in paths]
        return [f"{r.began - chaos.story.began:7.2f} {r}" for r in found or chaos.proxy.requests[-40:]]
    return []


async def _tell(chaos: Chaos) -> None:
    """The story: a first commit, then random steps."""
    rng = chaos.rng
    for _ in range(12):
        chaos.add()
    await chaos.commit("first")
    await chaos.begin()
    for _ in range(STEPS):
        step = rng.random()
        if step < 0.42:
            await chaos.some_commit()
        elif step < 0.72:
            await chaos.foreign()
        elif step < 0.92:
            await chaos.fault()
        elif step < 0.97:
            await chaos.crash(fresh=rng.random() < 0.5)
        else:
            await chaos.restart()
        await asyncio.to_thread(chaos.remember_uids)
        await asyncio.sleep(rng.choice((0.0, 0.02, 0.1, 0.4)))


async def _converge(chaos: Chaos) -> None:
    """The last fault ends, what is broken is mended; then it may take a while, but not for ever."""
    chaos.story.broken.clear()
    await asyncio.to_thread(chaos.proxy.restore)
    chaos.listen()
    await asyncio.to_thread(chaos.proxy.cut)
    chaos.story.say("faults end")
    await chaos.commit("mended")
    ends = time.monotonic() + CONVERGE
    while wrong := await asyncio.to_thread(chaos.wrong):
        if time.monotonic() > ends or chaos.running.task.done():
            pytest.fail("\n".join(["this is wrong:", *wrong]))
        await asyncio.sleep(0.2)
    chaos.story.say("converged")


async def _rest(chaos: Chaos) -> None:
    """Nothing is called any more, and nothing is wrong afterwards."""
    ends = time.monotonic() + CONVERGE
    while True:
        chaos.proxy.clear()
        await asyncio.sleep(QUIET)
        calls = chaos.proxy.calls()
        if not calls:
            break
        if time.monotonic() > ends:
            pytest.fail("\n".join(["there is no rest:", *map(str, calls[:20])]))
    assert not await asyncio.to_thread(chaos.wrong)
    chaos.story.say(f"at rest, after {len(chaos.deletes)} deletions")
