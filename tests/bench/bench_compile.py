"""Cost of compiling a large repository without a cluster: `python tests/bench/bench_compile.py [documents] [copy]`.

`copy` is what `gitops schemas pull` wrote for one cluster; with it every object is judged by those schemas.

For two shapes of repository (bundles of four objects; functions with a graph and an overlay):

- **validate**: `gitops validate FOLDER` as a process of its own: wall, CPU, and the most memory it had.
- **cold**: a new Compiler over a Git tree, everything read, merged and judged.
- **warm**: the same tree again. **one file changed**: the next commit, in which one file of one workload differs.

Targets for 10,000 documents: 5 s cold, 0.5 s warm. Prints; asserts nothing about times.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import fleet_repo
import function_repo

from gitops.model.identity import ClusterName
from gitops.plan.compiling import Compiler
from gitops.policy.facts import Facts
from gitops.policy.registry import OperatorRegistry
from gitops.policy.verdicts import Verdict
from gitops.source.mirror import Mirror
from gitops.source.remotes import CredentialFiles, Remote
from gitops.source.schema_files import load_published


@dataclass(frozen=True)
class Shape:
    name: str
    documents: int  # of one workload
    repository: Callable[[int], Mapping[str, str]]
    change: Callable[[int], Mapping[str, str]]  # the files of a commit, by its number


SHAPES = (
    Shape(
        "bundles",
        5,
        lambda count: fleet_repo.repository(count, namespace="fleet", reconciler="bench"),
        lambda turn: {fleet_repo.config_path(turn): fleet_repo.config_file(turn, "fleet", f"v{turn + 1}")},
    ),
    Shape(
        "functions",
        function_repo.DOCUMENTS,
        function_repo.repository,
        lambda turn: {function_repo.settings_path(turn): function_repo.settings_file(f"v{turn + 1}")},
    ),
)


def commit(folder: Path, files: Mapping[str, str]) -> None:
    """Commit these files in the work tree `folder`."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    subprocess.run(["git", "-C", folder, "add", "--all"], check=True)
    identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    subprocess.run(["git", "-C", folder, *identity, "commit", "--quiet", "--message=change"], check=True)


def show(name: str, wall: float, cpu: float, more: str) -> None:
    print(f"  {name:20} {wall:8.3f} s   {cpu:8.3f} s CPU   {more}")


def compiled(name: str, mirror: Mirror, compiler: Compiler, facts: Facts | None) -> None:
    head = mirror.fetch().head
    assert head is not None
    tree = mirror.tree(head)
    wall, cpu = time.perf_counter(), time.process_time()
    compilation = compiler.compile(tree, facts=facts)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert not compilation.errors, compilation.errors[:3]
    assert facts is not None or not compilation.findings, compilation.findings[:3]
    judged = sum(verdict is Verdict.VALID for _, _, verdict in compilation.judged())
    show(name, wall, cpu, f"{len(compilation.units)} units, {judged} objects valid")


def validated(folder: Path, copy: Path | None) -> None:
    command = [sys.executable, "-m", "gitops.cli", "validate", str(folder)]
    command += [] if copy is None else ["--schemas", str(copy)]
    wall = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - wall
    assert status == 0
    show("gitops validate", wall, usage.ru_utime + usage.ru_stime, f"{usage.ru_maxrss / 1024:.0f} MB at most")


def known_by(copy: Path | None, clusters: Iterable[str]) -> Facts | None:
    """The copy's facts, for clusters of these names."""
    if copy is None:
        return None
    (told,) = load_published([copy]).facts.values()
    return {ClusterName(name): told for name in clusters}


def measure(shape: Shape, documents: int, copy: Path | None) -> None:
    workloads = documents // shape.documents
    print(f"{workloads * shape.documents:,} documents: {workloads:,} {shape.name}")
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        work = Path(temporary, "work")
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", work], check=True)
        commit(work, shape.repository(workloads))
        validated(work, copy)
        facts = known_by(copy, (file.stem for file in (work / "clusters").iterdir()))
        mirror = Mirror(Path(temporary, "mirror"), Remote(work.as_uri(), "main", CredentialFiles()))
        compiler = Compiler(OperatorRegistry.shipped())
        compiled("cold", mirror, compiler, facts)
        compiled("warm", mirror, compiler, facts)
        for turn in range(3):
            commit(work, shape.change(turn))
            compiled("one file changed", mirror, compiler, facts)
        mirror.close()


def main() -> None:
    documents = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    copy = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    for shape in SHAPES:
        measure(shape, documents, copy)


if __name__ == "__main__":
    main()
