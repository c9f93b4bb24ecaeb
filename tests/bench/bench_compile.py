"""Cost of compiling a large repository without a cluster: `python tests/bench/bench_compile.py [documents]`.

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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import fleet_repo
import function_repo

from gitops.plan.compiling import Compiler
from gitops.policy.registry import OperatorRegistry
from gitops.source.mirror import Mirror
from gitops.source.remotes import CredentialFiles, Remote


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


def compiled(name: str, mirror: Mirror, compiler: Compiler) -> None:
    head = mirror.fetch().head
    assert head is not None
    tree = mirror.tree(head)
    wall, cpu = time.perf_counter(), time.process_time()
    compilation = compiler.compile(tree)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    assert not compilation.findings, compilation.findings[:3]
    show(name, wall, cpu, f"{len(compilation.units)} units")


def validated(folder: Path) -> None:
    command = [sys.executable, "-m", "gitops.cli", "validate", str(folder)]
    wall = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - wall
    assert status == 0
    show("gitops validate", wall, usage.ru_utime + usage.ru_stime, f"{usage.ru_maxrss / 1024:.0f} MB at most")


def measure(shape: Shape, documents: int) -> None:
    workloads = documents // shape.documents
    print(f"{workloads * shape.documents:,} documents: {workloads:,} {shape.name}")
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        work = Path(temporary, "work")
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", work], check=True)
        commit(work, shape.repository(workloads))
        validated(work)
        mirror = Mirror(Path(temporary, "mirror"), Remote(work.as_uri(), "main", CredentialFiles()))
        compiler = Compiler(OperatorRegistry.shipped())
        compiled("cold", mirror, compiler)
        compiled("warm", mirror, compiler)
        for turn in range(3):
            commit(work, shape.change(turn))
            compiled("one file changed", mirror, compiler)
        mirror.close()


def main() -> None:
    documents = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    for shape in SHAPES:
        measure(shape, documents)


if __name__ == "__main__":
    main()
