"""Cost of compiling a large repository without a cluster: `python tests/bench/bench_compile.py [units]`.

Cold: a new Compiler over a Git tree, everything read, merged and judged. Warm: the next commit, in which one file of
one workload differs. Targets for 10,000 documents: 5 s and 0.5 s. Prints; asserts nothing.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fleet_repo import config_file, config_path, repository

from gitops.plan.compiling import Compiler
from gitops.policy.registry import OperatorRegistry
from gitops.source.mirror import Mirror
from gitops.source.remotes import CredentialFiles, Remote

DOCUMENTS = 4  # of a unit, its bundle.yaml not counted


def commit(folder: Path, files: dict[str, str]) -> None:
    """Commit these files in the work tree `folder`."""
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    subprocess.run(["git", "-C", folder, "add", "--all"], check=True)
    identity = ["-c", "user.name=bench", "-c", "user.email=bench@example.com"]
    subprocess.run(["git", "-C", folder, *identity, "commit", "--quiet", "--message=change"], check=True)


def measure(name: str, mirror: Mirror, compiler: Compiler) -> None:
    head = mirror.fetch().head
    assert head is not None
    wall, cpu = time.perf_counter(), time.process_time()
    compilation = compiler.compile(mirror.tree(head))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"{name:40} {wall:8.3f} s   {cpu:8.3f} s CPU   {len(compilation.units)} units")
    assert not compilation.findings, compilation.findings[:3]


def main() -> None:
    units = int(sys.argv[1]) if len(sys.argv) > 1 else 2500
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        work = Path(temporary, "work")
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", work], check=True)
        commit(work, repository(units, namespace="fleet", reconciler="bench"))
        mirror = Mirror(Path(temporary, "mirror"), Remote(work.as_uri(), "main", CredentialFiles()))
        compiler = Compiler(OperatorRegistry.shipped())
        print(f"{units * DOCUMENTS:,} documents in {units:,} units")
        measure("cold", mirror, compiler)
        for turn in range(3):
            commit(work, {config_path(turn): config_file(turn, "fleet", "v1")})
            measure("one file changed", mirror, compiler)
        mirror.close()


if __name__ == "__main__":
    main()
