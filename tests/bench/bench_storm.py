"""An event storm: foreign writers change the status of declared and of secondary objects as fast as the server allows.

`python tests/bench/bench_storm.py [--updates 10000] [--units 200] [--functions 50]`. Every update is one event, turning
the verdict on its object: the worst there is for judging and for status files. Nothing of ours moves, so no call may
come of it, and commits of the status branch are at most one in ten seconds. The lag of an event is from the answer to
its writer until the engine had taken it in. Measures and prints; asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
from bare_process import session
from controlplane_kit.client import ApiServer
from fleet_repo import repository, unit_name
from nim_repo import CRDS, child, instance_namespace, nim_files, nim_name
from places import Engine, Place, certificates, one_place
from tables import Table, add_options, begun, write

NAMESPACE = "fleet"
WRITERS = 8
MERGE = {"Content-Type": "application/merge-patch+json"}
DEPLOYMENTS = "/apis/apps/v1/namespaces/{}/deployments/{}"
SERVICES = "/apis/apps.nvidia.com/v1alpha1/namespaces/{}/nimservices/{}"


@dataclass(frozen=True, slots=True)
class Target:
    """An object whose status is written, and the two that it gets in turn."""

    path: str
    statuses: tuple[Mapping[str, Any], Mapping[str, Any]]


def deployment_status(ready: int) -> dict[str, Any]:
    conditions = [{"type": "Available", "status": "True" if ready == 2 else "False", "reason": "Minimum"}]
    counts = {"replicas": 2, "updatedReplicas": 2, "readyReplicas": ready, "availableReplicas": ready}
    return {"observedGeneration": 1, **counts, "conditions": conditions}


def service_status(state: str) -> dict[str, Any]:
    ready = {
        "type": "Ready",
        "status": "True" if state == "Ready" else "False",
        "reason": state,
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    return {"state": state, "conditions": [ready]}


def targets(units: int, functions: int) -> list[Target]:
    """Declared Deployments, declared NIMServices, and the Deployments that an operator made of those."""
    turns = (deployment_status(2), deployment_status(1))
    declared = [Target(DEPLOYMENTS.format(NAMESPACE, unit_name(i)), turns) for i in range(units)]
    services, made = [], []
    for index in range(functions):
        place, name = instance_namespace(index), nim_name(index)
        services.append(Target(SERVICES.format(place, name), (service_status("Ready"), service_status("NotReady"))))
        made.append(Target(DEPLOYMENTS.format(place, name), turns))
    return [*declared, *services, *made]


def make_children(api: ApiServer, functions: int) -> None:
    """What the operator makes of each NIMService: a Deployment that it owns."""
    for index in range(functions):
        owner = api.get(SERVICES.format(instance_namespace(index), nim_name(index)))
        api.request("POST", DEPLOYMENTS.format(instance_namespace(index), "").rstrip("/"), child(owner))


async def storm(api: ApiServer, order: Iterable[tuple[Target, int]]) -> dict[str, float]:
    """Write; gives when each resourceVersion had been answered."""
    answered: dict[str, float] = {}
    waiting = iter(order)

    async def work(http: aiohttp.ClientSession) -> None:
        for target, turn in waiting:
            body = msgspec.json.encode({"status": target.statuses[turn % 2]})
            query = {"fieldManager": "storm"}
            async with http.patch(f"{api.url}{target.path}/status", data=body, headers=MERGE, params=query) as answer:
                answer.raise_for_status()
                written = msgspec.json.decode(await answer.read())
                answered[written["metadata"]["resourceVersion"]] = time.monotonic()

    async with session(certificates(api)) as http:
        await asyncio.gather(*(work(http) for _ in range(WRITERS)))
    return answered


def rounds(all_targets: list[Target], updates: int) -> Iterator[tuple[Target, int]]:
    """Every target in turn, again and again."""
    turns = ((target, turn) for turn in itertools.count() for target in all_targets)
    return itertools.islice(turns, updates)


async def scenario(place: Place, options: argparse.Namespace, table: Table) -> None:
    place.plane.create_crds(CRDS)
    place.plane.create_namespace(NAMESPACE)
    files = repository(options.units, namespace=NAMESPACE, reconciler="bench")
    commit = place.repo.commit(files | nim_files(options.functions))
    engine = await place.engine()
    await engine.ask("start")
    await engine.ask(f"settled {commit}")
    make_children(place.plane, options.functions)
    aims = targets(options.units, options.functions)
    await storm(place.plane, rounds(aims, len(aims)))  # all have a status
    await asyncio.sleep(25)  # and that is told
    await measure(place, engine, aims, options.updates, table)
    await engine.stop()


async def measure(place: Place, engine: Engine, aims: list[Target], updates: int, table: Table) -> None:
    await engine.ask("clear")
    await engine.ask("follow")
    before, told = await engine.ask("report"), len(place.repo.log(branch="gitops-status"))
    began = time.monotonic()
    answered = await storm(place.plane, ((t, turn + 1) for t, turn in rounds(aims, updates)))
    seconds = time.monotonic() - began
    after = await engine.ask("report")
    await asyncio.sleep(25)  # whatever comes of it has come by then
    rested, commits = await engine.ask("report"), len(place.repo.log(branch="gitops-status")) - told
    await engine.ask(f"seen {place.folder / 'seen'}")
    seen = await asyncio.to_thread(read, place.folder / "seen")
    lags = [max(0.0, seen[version] - at) for version, at in answered.items() if version in seen]
    table.begin("event storm", f"{updates:,} status updates of {len(aims):,} objects")
    table.add("updates a second", updates / seconds, "/s")
    table.add("events that the engine was not told", len(answered) - len(lags), "", "0")
    table.times("event answered → taken in", lags, unit="ms")
    table.add("CPU of the engine meanwhile", 100 * (after["cpu"] - before["cpu"]) / seconds, "%")
    table.add("… for each update, until all is told", 1000 * (rested["cpu"] - before["cpu"]) / updates, "ms")
    table.add("calls besides watches and the Lease", rested["calls"], "", "0")
    table.add("commits", commits, "", f"≤ {1 + (seconds + 25) / 10:.0f}")
    table.add("memory afterwards, more than before", (rested["rss"] - before["rss"]) / 1e6, "MB")


def read(file: Path) -> dict[str, float]:
    seen: dict[str, float] = json.loads(file.read_text())
    return seen


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=10_000)
    parser.add_argument("--units", type=int, default=200, help="bundles of four objects, one of them a Deployment")
    parser.add_argument("--functions", type=int, default=50, help="with a NIMService each, and a Deployment made of it")
    add_options(parser)
    options = parser.parse_args()
    table, ran_on = Table(), begun()
    with one_place() as place:
        asyncio.run(scenario(place, options, table))
    write(table, ran_on, options)


if __name__ == "__main__":
    main()
