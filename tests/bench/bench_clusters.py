"""One of many clusters is dead or slow: what the others notice of it.

`python tests/bench/bench_clusters.py [--clusters 20] [--units 10] [--commits 20]`. Every cluster is an API server of
its own, since one under two names is refused: about 300 MB each. Every unit is on all clusters; a commit
changes one object of one unit, so all clusters are worked on at once. One cluster is behind a proxy: first it answers,
then each answer takes two seconds more, then it takes everything and answers nothing, and at last it answers again,
which tells how much the machine's own speed moved meanwhile. Measured on the others only.
Measures and prints; asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from controlplane_kit import ControlPlane
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import Delay
from controlplane_kit.gitserver import GitServer, Repository
from fleet_repo import CLUSTER, KINDS, config_file, config_path, repository, unit_name
from observing import Witness, witness
from places import Engine, give_credentials
from tables import Table, add_options, begun, write

NAMESPACE = "fleet"
BAD = "c-00"
"""The cluster behind the proxy."""

SLOW = 2.0
"""Seconds."""


@dataclass(frozen=True, slots=True)
class Clusters:
    """Clusters by name, and one repository."""

    planes: dict[str, ControlPlane]
    proxy: FaultProxy
    repo: Repository
    folder: Path
    units: int

    @property
    def good(self) -> list[str]:
        return [name for name in self.planes if name != BAD]

    async def engine(self) -> Engine:
        kubeconfigs = {name: plane.kubeconfig for name, plane in self.planes.items()} | {BAD: self.proxy.kubeconfig}
        return await Engine.open(self.repo, give_credentials(self.folder / "credentials", kubeconfigs), self.folder)

    def files(self) -> dict[str, str]:
        files = repository(self.units, namespace=NAMESPACE, reconciler="bench")
        document = yaml.safe_load(files.pop(f"clusters/{CLUSTER}.yaml"))
        for name in self.planes:
            document["metadata"]["name"] = document["spec"]["credentials"] = name
            files[f"clusters/{name}.yaml"] = yaml.safe_dump(document)
        return files


@contextmanager
def clusters(count: int, units: int) -> Iterator[Clusters]:
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary, ExitStack() as stack:
        folder = Path(temporary)
        planes = {f"c-{index:02d}": ControlPlane(folder / f"c-{index:02d}") for index in range(count)}
        with ThreadPoolExecutor(2) as starting:
            for plane in starting.map(ControlPlane.start, planes.values()):
                stack.callback(plane.stop)
                plane.create_namespace(NAMESPACE)
        proxy = stack.enter_context(FaultProxy(planes[BAD], folder / "proxy"))
        server = stack.enter_context(GitServer(folder / "git"))
        yield Clusters(planes, proxy, server.create(), folder, units)


async def commits(of: Clusters, engine: Engine, seen: dict[str, Witness], count: int, mark: str) -> list[float]:
    """Seconds from each push until it is live, on each good cluster."""
    times: list[float] = []
    for turn in range(count):
        index, value = turn % of.units, f"{mark}-{turn}"
        live = [each.expect(KINDS[0], unit_name(index), value) for each in seen.values()]
        files = {config_path(index): config_file(index, NAMESPACE, value)}
        await asyncio.to_thread(of.repo.commit, files)
        pushed = time.monotonic()
        engine.tell("fetch")
        times += [at - pushed for at in await asyncio.wait_for(asyncio.gather(*live), 120)]
    return times


async def edits(of: Clusters, seen: dict[str, Witness], count: int) -> list[float]:
    """Seconds from the answer to each foreign edit until it is undone, the good clusters in turn."""
    times: list[float] = []
    for turn in range(count):
        each, kind, name = seen[of.good[turn % len(of.good)]], KINDS[1], unit_name(turn % of.units)
        repaired = each.expect(kind, name, kind.foreign(), kind.declared(name))
        answered = await each.edit(kind, name, kind.foreign())
        times.append(await asyncio.wait_for(repaired, 60) - answered)
    return times


async def restart(of: Clusters, engine: Engine) -> tuple[Engine, float]:
    """A new engine, and seconds until the good clusters are steady."""
    await engine.stop()
    engine = await of.engine()
    started = await engine.ask("start")
    done = await engine.ask(f"settled {of.repo.head()} {' '.join(of.good)}")
    return engine, done["at"] - started["began"]


async def scenario(of: Clusters, options: argparse.Namespace, table: Table) -> None:
    of.repo.commit(of.files())
    engine = await of.engine()
    await engine.ask("start")
    await engine.ask(f"settled {of.repo.head()}")
    async with AsyncExitStack() as stack:
        kinds = KINDS[:2]
        opened = {n: await stack.enter_async_context(witness(of.planes[n], NAMESPACE, kinds)) for n in of.good}
        cases = {
            "all answer": of.proxy.restore,
            f"one takes {SLOW:.0f} s longer": lambda: of.proxy.fail(Delay(SLOW), times=None),
            "one is silent": of.proxy.blackhole,
            "all answer again": of.proxy.restore,
        }
        for number, (case, begin) in enumerate(cases.items()):
            begin()
            await asyncio.sleep(options.settle)
            table.begin(f"{len(of.planes)} clusters, {of.units * len(KINDS)} objects on each", case)
            before = await engine.ask("report")
            times = await commits(of, engine, opened, options.commits, f"v{number}")
            table.times(
                f"{options.commits} commits, push → live on each of the others", times, p50="as when all answer"
            )
            table.times(
                f"{options.edits} foreign edits → repaired there",
                await edits(of, opened, options.edits),
                unit="ms",
                p50="< 50",
                p99="< 250",
            )
            table.add("CPU of the engine meanwhile", (await engine.ask("report"))["cpu"] - before["cpu"], "s")
            engine, seconds = await restart(of, engine)
            table.add("warm restart → the others steady", seconds, "s")
        await engine.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=20)
    parser.add_argument("--units", type=int, default=10)
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--edits", type=int, default=100)
    parser.add_argument("--settle", type=float, default=20.0, help="seconds before each case is measured")
    add_options(parser)
    options = parser.parse_args()
    table, ran_on = Table(), begun()
    with clusters(options.clusters, options.units) as of:
        asyncio.run(scenario(of, options, table))
    write(table, ran_on, options)


if __name__ == "__main__":
    main()
