"""What the engine costs on a real API server, beside a bare loop of the same calls on the same server.

`python tests/bench/bench_fleet.py [--units 20 200 1000] [--sync-only] [--json FILE] [--markdown FILE]`. Measures and
prints; asserts nothing. docs/performance.md says what each figure means and gives the last ones.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane_kit import ControlPlane
from controlplane_kit.gitserver import GitServer, Repository
from fleet_repo import KINDS, config_file, config_path, objects, repository, unit_name
from observing import Witness, witness

HERE = Path(__file__).parent
BEST_PEER = 17.0
"""Objects a second of the faster of the two best known tools, on the same machine (docs/performance.md)."""


@dataclass(slots=True)
class Table:
    """Figures as they come: (section, name, value, unit, target)."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    section: str = ""

    def begin(self, section: str) -> None:
        self.section = section
        print(f"\n{section}", flush=True)

    def add(self, name: str, value: float | str, unit: str = "", target: str = "") -> None:
        self.rows.append({"section": self.section, "name": name, "value": value, "unit": unit, "target": target})
        shown = value if isinstance(value, str) else f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.4g}"
        self.rows[-1]["shown"] = shown
        print(f"  {name:58} {shown:>12} {unit:12} {'target ' + target if target else ''}", flush=True)

    def markdown(self, ran_on: str) -> str:
        """All figures: a row for each, a column for each size. What was asked of one size only stands in its column."""
        sizes = list(dict.fromkeys(row["section"].partition(":")[0] for row in self.rows if ":" in row["section"]))
        lines = [f"{ran_on}.", "", f"| | target | {' | '.join(sizes)} |", "|---|---|" + "---|" * len(sizes)]
        cells: dict[tuple[str, str, str], dict[str, str]] = {}
        for row in self.rows:
            size, colon, what = row["section"].partition(":")
            key = (what.strip(), row["name"], row["target"]) if colon else (size, row["name"], row["target"])
            cells.setdefault(key, {})[size if colon else sizes[-1]] = f"{row['shown']} {row['unit']}".strip()
        for (what, name, target), values in cells.items():
            lines.append(f"| {what}: {name} | {target} | {' | '.join(values.get(size, '') for size in sizes)} |")
        return "\n".join(lines) + "\n"


def machine(load: float) -> str:
    """What it ran on, in one line."""
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), "")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    cores, name = os.cpu_count(), model.partition(":")[2].strip() or platform.machine()
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{cores} cores ({name}), {memory:.0f} GiB, {system}, load {load:.1f} at the start"


class Engine:
    """The engine's process and its answers."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.started: dict[str, Any] = {}
        self.pid = process.pid

    async def ask(self, command: str) -> dict[str, Any]:
        self.tell(command)
        return await self._answer()

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())

    async def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the engine's process ended with {await self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    @classmethod
    async def open(cls, url: str, kubeconfig: Path, mirror: Path, log: Path) -> Engine:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "bench-pycache")  # as when installed
        environment.setdefault("MALLOC_TRIM_THRESHOLD_", "131072")  # as in the image
        with log.open("ab") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(HERE / "engine_process.py"),
                url,
                str(kubeconfig),
                str(mirror),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=environment,
            )
        engine = cls(process)
        engine.started = await engine._answer()
        return engine

    async def close(self) -> None:
        if self._process.returncode is None:
            await self.ask("stop")
        await self._process.wait()


@dataclass(frozen=True, slots=True)
class Place:
    """Where one measurement happens: a control plane, a repository of so many units, a namespace."""

    plane: ControlPlane
    repo: Repository
    folder: Path
    namespace: str
    units: int

    @property
    def certificates(self) -> dict[str, str]:
        certificate, key = self.plane.certificates.admin
        return {"authority": str(self.plane.certificates.authority), "certificate": str(certificate), "key": str(key)}

    def witness(self, namespace: str) -> Any:
        return witness(self.plane.url, self.certificates, namespace)

    async def engine(self) -> Engine:
        return await Engine.open(
            self.repo.url, self.plane.kubeconfig, self.folder / "mirror", self.folder / "engine.log"
        )

    async def bare(self, mode: str, *arguments: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(HERE / "bare_process.py"),
            mode,
            json.dumps({"url": self.plane.url, **self.certificates}),
            *arguments,
            stdout=asyncio.subprocess.PIPE,
        )


def percentile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


# -- 1: first sync ---------------------------------------------------------------------------------------------------


async def first_sync(place: Place, table: Table) -> Engine:
    """Everything from nothing; then the bare loop of the same calls."""
    objects_declared = place.units * len(KINDS)
    commit = place.repo.commit(repository(place.units, namespace=place.namespace, reconciler="bench"))
    engine = await place.engine()
    started = await engine.ask("start")
    done = await engine.ask(f"settled {commit}")
    seconds = done["last_write"] - started["began"]
    cpu = done["cpu"] - engine.started["cpu"]
    file = place.folder / "calls"
    await engine.ask(f"dump {file}")
    await engine.ask("clear")
    bare = await bare_sync(place, file)
    table.add("seconds until every object is live and every parent settled", seconds, "s")
    table.add("… of these before the first write", done["first_write"] - started["began"], "s")
    rate = objects_declared / seconds
    table.add("objects a second", rate, "/s", f"≥ {15 * BEST_PEER:.0f} (15 × the best peer)")
    table.add("… against the best peer", rate / BEST_PEER, "×", "≥ 15")
    table.add("calls", done["calls"])
    for verb, number in sorted(done["verbs"].items()):
        table.add(f"… {verb}", number)
    table.add("calls for each object", done["calls"] / objects_declared)
    table.add("CPU of the engine's process", cpu, "s")
    table.add("… for each call", 1000 * cpu / done["calls"], "ms")
    table.add("bare loop of the same calls", bare["seconds"], "s")
    table.add("CPU of the bare loop", bare["cpu"], "s")
    table.add("engine's speed against the bare loop", 100 * bare["seconds"] / seconds, "%", "≥ 50")
    unchecked = await bare_sync(place, file, without_dry_runs=True)
    table.add("bare loop without the dry-runs", unchecked["seconds"], "s")
    if done["failed"] or bare["failed"]:
        table.add("calls that failed, engine / bare loop", f"{done['failed']} / {bare['failed']}")
    return engine


async def bare_sync(place: Place, file: Path, *, without_dry_runs: bool = False) -> dict[str, Any]:
    plain = "unchecked" if without_dry_runs else "plain"
    names = {place.namespace: plain, "gitops-system": f"{plain}-system"}
    for name in names.values():
        place.plane.create_namespace(name)
    process = await place.bare("replay", str(file), json.dumps(names), *(["without-dry-runs"] * without_dry_runs))
    output, _ = await process.communicate()
    answer: dict[str, Any] = json.loads(output)
    return answer


# -- 2: a commit -----------------------------------------------------------------------------------------------------


async def commits(place: Place, engine: Engine, table: Table, *, count: int) -> None:
    times, calls = [], []
    async with place.witness(place.namespace) as seen:
        for turn in range(count):
            index = turn % place.units
            value = f"v{turn + 1}"
            live = seen.expect(KINDS[0], unit_name(index), value)
            files = {config_path(index): config_file(index, place.namespace, value)}
            await engine.ask("clear")
            commit = await asyncio.to_thread(place.repo.commit, files)
            pushed = time.monotonic()
            engine.tell("fetch")
            times.append(await asyncio.wait_for(live, 60) - pushed)
            calls.append((await engine.ask(f"settled {commit}"))["calls"])
        for index in range(min(count, place.units)):  # back to what it was
            files = {config_path(index): config_file(index, place.namespace, "v0")}
            commit = await asyncio.to_thread(place.repo.commit, files)
        engine.tell("fetch")
        await engine.ask(f"settled {commit}")
    table.add(f"push → live, {count} commits: p50", percentile(times, 0.5), "s", "< 0.2")
    table.add("p99", percentile(times, 0.99), "s", "< 0.5")
    table.add("calls of each (most)", max(calls), "", "≤ 5")


# -- 3: drift --------------------------------------------------------------------------------------------------------


async def drift(place: Place, engine: Engine, table: Table, *, count: int) -> None:
    await engine.ask("clear")
    times = await edits(place, place.namespace, count)
    done = await engine.ask("report")
    table.add(f"foreign edit → repaired, {len(times)} objects: p50", 1000 * percentile(times, 0.5), "ms", "< 50")
    table.add("p99", 1000 * percentile(times, 0.99), "ms", "< 250")
    table.add("writes of each", done["writes"] / len(times), "", "1")
    process = await place.bare("repair", "plain")
    assert process.stdout is not None
    await process.stdout.readline()
    bare = await edits(place, "plain", min(count, 200))
    process.kill()
    await process.wait()
    table.add(f"bare loop (patches back), {len(bare)} objects: p50", 1000 * percentile(bare, 0.5), "ms")
    table.add("p99", 1000 * percentile(bare, 0.99), "ms")


async def edits(place: Place, namespace: str, count: int) -> list[float]:
    """Seconds from the answer to each foreign edit until the declared value is live again."""
    times = []
    seen: Witness
    async with place.witness(namespace) as seen:
        for _, (kind, name) in zip(range(count), objects(place.units), strict=False):
            repaired = seen.expect(kind, name, kind.foreign(), kind.declared(name))
            answered = await seen.edit(kind, name, kind.foreign())
            times.append(await asyncio.wait_for(repaired, 60) - answered)
    return times


# -- 4 to 6: rest, memory, restart -----------------------------------------------------------------------------------


async def rest(place: Place, engine: Engine, table: Table, *, seconds: float) -> None:
    await asyncio.sleep(15)  # the last status commit of what was before
    await engine.ask("clear")
    before, commits_before = await engine.ask("report"), len(place.repo.log(branch="gitops-status"))
    await asyncio.sleep(seconds)
    after, commits_after = await engine.ask("report"), len(place.repo.log(branch="gitops-status"))
    table.add(f"at rest for {seconds:.0f} s: calls besides watches and the Lease", after["calls"], "", "0")
    table.add("calls for the Lease", after["lease"] - before["lease"])
    table.add("commits", commits_after - commits_before, "", "0")
    table.add("CPU", 100 * (after["cpu"] - before["cpu"]) / seconds, "%", "< 0.5")


async def restart(place: Place, engine: Engine, table: Table) -> dict[str, Any]:
    """Stop the engine and start it on what is there; gives the last report."""
    began = time.monotonic()
    stopped = await engine.ask("stop")
    table.add("clean stop", stopped["at"] - began, "s", "< 10")
    commit = place.repo.head()
    began = time.monotonic()
    engine = await place.engine()
    ready = time.monotonic()
    started = await engine.ask("start")
    done = await engine.ask(f"settled {commit}")
    table.add("warm restart → steady", done["at"] - started["began"], "s", "< 3 with 4,000 objects")
    table.add("… and starting Python before that", ready - began, "s")
    table.add("CPU until steady", done["cpu"] - engine.started["cpu"], "s")
    per_kind = {path: n for path, n in done["lists"].items() if "gitops-system" not in path}
    pages = max(per_kind.values(), default=0)
    most = [path.rpartition("/")[2] for path, n in per_kind.items() if n == pages]
    table.add(f"LIST requests of a kind (most: {', '.join(most)}; pages of 500)", pages, "", "1 list")
    table.add("writes", done["writes"], "", "0")
    await asyncio.sleep(12)
    rested = await engine.ask("report")
    await engine.ask("stop")
    return rested


async def scenario(units: int, options: argparse.Namespace, table: Table) -> dict[str, float]:
    """All figures for one size; gives memory by state."""
    count = units * len(KINDS)
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        folder = Path(temporary)
        with ControlPlane(folder / "plane") as plane, GitServer(folder / "git") as server:
            place = Place(plane, server.create(), folder, "fleet", units)
            plane.create_namespace(place.namespace)
            await warm_up(place)
            table.begin(f"{units:,} units, {count:,} objects: first sync")
            engine = await first_sync(place, table)
            if options.sync_only:
                await engine.close()
                return {"objects": count}
            table.begin(f"{units:,} units, {count:,} objects: one-file commit")
            await commits(place, engine, table, count=options.commits)
            table.begin(f"{units:,} units, {count:,} objects: drift")
            await drift(place, engine, table, count=min(options.edits, count))
            table.begin(f"{units:,} units, {count:,} objects: at rest")
            await rest(place, engine, table, seconds=options.rest)
            worked = await engine.ask("report")
            table.begin(f"{units:,} units, {count:,} objects: warm restart")
            rested = await restart(place, engine, table)
            table.begin(f"{units:,} units, {count:,} objects: memory")
            limit = f"≤ {120 + 1.5 * count / 1000:.0f}"
            table.add("before the start (imports)", engine.started["rss"] / 1e6, "MB")
            table.add("after all of the above", worked["rss"] / 1e6, "MB", limit)
            table.add("after a restart", rested["rss"] / 1e6, "MB", limit)
            return {"objects": count, "worked": worked["rss"], "restarted": rested["rss"]}


async def warm_up(place: Place) -> None:
    """A fresh API server is slow at first: let it serve some calls before the clock starts."""
    place.plane.create_namespace("warm")
    for index in range(100):
        for kind in KINDS[:1]:
            body = {"metadata": {"name": f"w-{index}"}}
            await asyncio.to_thread(place.plane.request, "POST", kind.collection("warm"), body)
    for kind in KINDS:
        await asyncio.to_thread(place.plane.request, "DELETE", kind.collection("warm"))


# -- main ------------------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--units", type=int, nargs="+", default=[20, 200, 1000])
    parser.add_argument("--commits", type=int, default=50)
    parser.add_argument("--edits", type=int, default=500)
    parser.add_argument("--rest", type=float, default=30.0, help="seconds at rest")
    parser.add_argument("--sync-only", action="store_true", help="the first sync and nothing else")
    parser.add_argument("--json", type=Path, help="write the figures to this file too")
    parser.add_argument("--markdown", type=Path, help="and as the table of docs/performance.md to this one")
    options = parser.parse_args()
    table = Table()
    load = os.getloadavg()[0]
    table.begin(f"{os.cpu_count()} cores, load {load:.1f}")
    memory = [asyncio.run(scenario(units, options, table)) for units in options.units]
    if len(memory) > 1 and not options.sync_only:
        few, many = memory[-2], memory[-1]
        between = many["objects"] - few["objects"]
        table.begin(f"memory of a watched object, between {few['objects']:,} and {many['objects']:,}")
        for state in ("worked", "restarted"):
            table.add(f"bytes an object, {state}", (many[state] - few[state]) / between, "B", "≤ 1,500")
    if options.markdown:
        options.markdown.write_text(table.markdown(machine(load)))
    if options.json:
        options.json.write_text(json.dumps({"cores": os.cpu_count(), "load": load, "figures": table.rows}, indent=1))


if __name__ == "__main__":
    main()
