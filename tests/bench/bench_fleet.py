"""What the engine costs on a real API server, beside a bare loop of the same calls on the same server.

`python tests/bench/bench_fleet.py [--units 20 200 1000] [--only drift restart …] [--json FILE] [--markdown FILE]`.
Measures and prints; asserts nothing. docs/performance.md says what each figure means and gives the last ones.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controlplane_kit.client import ApiServer
from fleet_repo import KINDS, config_file, config_path, objects, repository, unit_name
from observing import Witness, witness
from places import Engine, Place, one_place
from tables import Table, add_options, begun, write

BEST_PEER = 17.0
"""Objects a second of the faster of the two best known tools, on the same machine (docs/performance.md)."""

PARTS = ("bare", "commits", "drift", "rest", "restart")
"""What follows the first sync."""

NAMESPACE, BARE = "fleet", "plain"
"""Where the engine's objects are, and those of the bare loop."""


@dataclass(frozen=True, slots=True)
class Fleet:
    """A place whose repository declares so many units."""

    place: Place
    units: int

    @property
    def api(self) -> ApiServer:
        return self.place.plane

    @property
    def objects(self) -> int:
        return self.units * len(KINDS)

    def push(self, index: int, value: str) -> str:
        """Commit one unit's ConfigMap; gives the commit."""
        return self.place.repo.commit({config_path(index): config_file(index, NAMESPACE, value)})


# -- 1: first sync ---------------------------------------------------------------------------------------------------


async def first_sync(fleet: Fleet, table: Table, *, bare: bool) -> Engine:
    """Everything from nothing; then the bare loop of the same calls."""
    place = fleet.place
    commit = place.repo.commit(repository(fleet.units, namespace=NAMESPACE, reconciler="bench"))
    engine = await place.engine()
    started = await engine.ask("start")
    done = await engine.ask(f"settled {commit}")
    seconds = done["last_write"] - started["began"]
    cpu = done["cpu"] - engine.opened["cpu"]
    table.add("seconds until every object is live and every parent settled", seconds, "s")
    table.add("… of these before the first write", done["first_write"] - started["began"], "s")
    table.add("objects a second", fleet.objects / seconds, "/s", f"≥ {15 * BEST_PEER:.0f} (15 × the best peer)")
    table.add("… against the best peer", fleet.objects / seconds / BEST_PEER, "×", "≥ 15")
    table.add("calls for each object", done["calls"] / fleet.objects)
    for verb, number in sorted(done["verbs"].items()):
        table.add(f"… {verb}", number / fleet.objects)
    table.add("CPU of the engine's process", cpu, "s")
    table.add("… for each call", 1000 * cpu / done["calls"], "ms")
    if done["failed"]:
        table.add("calls that failed", done["failed"])
    if bare:
        await bare_loops(place, engine, table, seconds)
    await engine.ask("clear")
    return engine


async def bare_loops(place: Place, engine: Engine, table: Table, seconds: float) -> None:
    """The calls of the first sync, by a loop that looks at nothing."""
    file = place.folder / "calls"
    await engine.ask(f"dump {file}")
    same = await replay(place, file, BARE)
    table.add("bare loop of the same calls", same["seconds"], "s")
    table.add("CPU of the bare loop", same["cpu"], "s")
    table.add("engine's speed against the bare loop", 100 * same["seconds"] / seconds, "%", "≥ 50")
    unchecked = await replay(place, file, "unchecked", "without-dry-runs")
    table.add("bare loop without the dry-runs", unchecked["seconds"], "s")
    if failed := same["failed"] + unchecked["failed"]:
        table.add("calls of the bare loops that failed", failed)


async def replay(place: Place, file: Path, namespace: str, *options: str) -> dict[str, Any]:
    names = {NAMESPACE: namespace, "gitops-system": f"{namespace}-system"}
    for name in names.values():
        place.plane.create_namespace(name)
    process = await place.bare("replay", str(file), json.dumps(names), *options)
    output, _ = await process.communicate()
    answer: dict[str, Any] = json.loads(output)
    return answer


# -- 2: a commit -----------------------------------------------------------------------------------------------------


async def commits(fleet: Fleet, engine: Engine, table: Table, *, count: int) -> None:
    times, calls = [], []
    async with witness(fleet.api, NAMESPACE) as seen:
        for turn in range(count):
            index = turn % fleet.units
            live = seen.expect(KINDS[0], unit_name(index), f"v{turn + 1}")
            await engine.ask("clear")
            commit = await asyncio.to_thread(fleet.push, index, f"v{turn + 1}")
            pushed = time.monotonic()
            engine.tell("fetch")
            times.append(await asyncio.wait_for(live, 60) - pushed)
            calls.append((await engine.ask(f"settled {commit}"))["calls"])
        for index in range(min(count, fleet.units)):  # back to what it was
            commit = await asyncio.to_thread(fleet.push, index, "v0")
        engine.tell("fetch")
        await engine.ask(f"settled {commit}")
    table.times(f"push → live, {count} commits", times, p50="< 0.2", p99="< 0.5")
    table.add("calls of each (most)", max(calls), "", "≤ 5")


# -- 3: drift --------------------------------------------------------------------------------------------------------


async def drift(fleet: Fleet, engine: Engine, table: Table, *, count: int) -> None:
    await engine.ask("clear")
    times = await edits(fleet, NAMESPACE, count)
    done = await engine.ask("report")
    table.times(f"foreign edit → repaired, {len(times)} objects", times, unit="ms", p50="< 50", p99="< 250")
    table.add("writes of each", done["writes"] / len(times), "", "1")
    if fleet.api.get(f"/api/v1/namespaces/{BARE}") is None:
        return
    process = await fleet.place.bare("repair", BARE)
    assert process.stdout is not None
    await process.stdout.readline()
    bare = await edits(fleet, BARE, count)
    process.kill()
    await process.wait()
    table.times(f"bare loop (patches back), {len(bare)} objects", bare, unit="ms")


async def edits(fleet: Fleet, namespace: str, count: int) -> list[float]:
    """Seconds from the answer to each foreign edit until the declared value is live again."""
    times = []
    seen: Witness
    async with witness(fleet.api, namespace) as seen:
        for _, (kind, name) in zip(range(count), objects(fleet.units), strict=False):
            repaired = seen.expect(kind, name, kind.foreign(), kind.declared(name))
            answered = await seen.edit(kind, name, kind.foreign())
            times.append(await asyncio.wait_for(repaired, 60) - answered)
    return times


# -- 4 to 6: rest, memory, restart -----------------------------------------------------------------------------------


async def rest(fleet: Fleet, engine: Engine, table: Table, *, seconds: float) -> None:
    await asyncio.sleep(15)  # the last status commit of what was before
    await engine.ask("clear")
    before, told = await engine.ask("report"), len(fleet.place.repo.log(branch="gitops-status"))
    await asyncio.sleep(seconds)
    after, told_after = await engine.ask("report"), len(fleet.place.repo.log(branch="gitops-status"))
    table.add(f"{seconds:.0f} s: calls besides watches and the Lease", after["calls"], "", "0")
    table.add("calls for the Lease", after["lease"])
    table.add("commits", told_after - told, "", "0")
    table.add("CPU", 100 * (after["cpu"] - before["cpu"]) / seconds, "%", "< 0.5")


async def restart(fleet: Fleet, engine: Engine, table: Table) -> Engine:
    """Stop the engine and start it on what is there; gives the new one, at rest."""
    began = time.monotonic()
    stopped = await engine.stop()
    table.add("clean stop", stopped["at"] - began, "s", "< 10")
    began = time.monotonic()
    engine = await fleet.place.engine()
    ready = time.monotonic()
    started = await engine.ask("start")
    done = await engine.ask(f"settled {fleet.place.repo.head()}")
    table.add("start → steady", done["at"] - started["began"], "s", "< 3 with 4,000 objects")
    table.add("… and starting Python before that", ready - began, "s")
    table.add("CPU until steady", done["cpu"] - engine.opened["cpu"], "s")
    per_kind = {path: n for path, n in done["lists"].items() if "gitops-system" not in path}
    table.add("requests of the longest list (pages of 500)", max(per_kind.values()), "", "1 list")
    table.add("writes", done["writes"], "", "0")
    await asyncio.sleep(12)
    return engine


async def scenario(units: int, options: argparse.Namespace, table: Table) -> dict[str, float]:
    """All figures for one size; gives memory by state."""
    with one_place() as place:
        fleet, parts = Fleet(place, units), options.only
        size, sets = f"{fleet.objects:,} objects", {"objects": float(fleet.objects)}
        place.plane.create_namespace(NAMESPACE)
        table.begin("first sync", size)
        engine = await first_sync(fleet, table, bare="bare" in parts)
        if "commits" in parts:
            table.begin("one-file commit", size)
            await commits(fleet, engine, table, count=options.commits)
        if "drift" in parts:
            table.begin("drift", size)
            await drift(fleet, engine, table, count=min(options.edits, fleet.objects))
        if "rest" in parts:
            table.begin("at rest", size)
            await rest(fleet, engine, table, seconds=options.rest)
        imported, sets["worked"] = engine.opened["rss"], (await engine.ask("report"))["rss"]
        if "restart" in parts:
            table.begin("warm restart", size)
            engine = await restart(fleet, engine, table)
            sets["restarted"] = (await engine.ask("report"))["rss"]
        table.begin("memory", size)
        limit = f"≤ {120 + 1.5 * fleet.objects / 1000:.0f}"
        table.add("before the start (imports)", imported / 1e6, "MB")
        for state in sets.keys() - {"objects"}:
            table.add(f"after {STATES[state]}", sets[state] / 1e6, "MB", limit)
        await engine.stop()
        return sets


STATES = {"worked": "all of the above", "restarted": "a restart"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, nargs="+", default=[20, 200, 1000])
    parser.add_argument("--commits", type=int, default=50)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--rest", type=float, default=30.0, help="seconds at rest")
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS, help="the first sync and these parts")
    add_options(parser)
    options = parser.parse_args()
    table, ran_on = Table(), begun()
    memory = [asyncio.run(scenario(units, options, table)) for units in options.units]
    for few, many in itertools.pairwise(memory):
        between = many["objects"] - few["objects"]
        table.begin("memory of a watched object", f"{many['objects']:,.0f} objects")
        for state in many.keys() - {"objects"}:
            each = (many[state] - few[state]) / between
            table.add(f"against {few['objects']:,.0f}, after {STATES[state]}", each, "B", "≤ 1,500")
    write(table, ran_on, options)


if __name__ == "__main__":
    main()
