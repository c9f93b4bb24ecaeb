"""The programs of a control plane: where they are, and how they come to be there.

Order: the folder named by KUBEBUILDER_ASSETS (the usual variable, so a machine with envtest's own download is used as
it is), then a cache folder keyed by the content of our go.mod files, then a build with Go into that folder. The
versions stand in tests/controlplane/go/*/go.mod and nowhere else.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

MODULES = Path(__file__).resolve().parent.parent / "go"
"""Our Go modules, one folder each."""

REQUIRED = ("etcd", "kube-apiserver")
"""Enough for an API server without controllers; what envtest's download holds, besides kubectl."""

COMPLETE = (*REQUIRED, "kube-controller-manager", "kube-scheduler", "kwok")
"""What a control plane with controllers, scheduler and nodes needs."""

_RECIPE = "1"  # raise it when the build flags below change: it is part of the cache key


class BinariesMissing(Exception):
    """The programs are not on this machine and cannot be built; the message says what would help."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with the programs; `kubectl` may stand elsewhere."""

    folder: Path
    found: Mapping[str, Path] = field(default_factory=dict)

    def path(self, name: str) -> Path:
        """The program called `name`; raises BinariesMissing when this folder lacks it."""
        try:
            return self.found[name]
        except KeyError:
            raise BinariesMissing(f"{self.folder} has no {name}") from None

    def has(self, *names: str) -> bool:
        """Whether all of `names` are there."""
        return all(name in self.found for name in names)


def locate() -> Binaries | None:
    """The programs that are on this machine now, or None. Builds nothing."""
    assets = os.environ.get("KUBEBUILDER_ASSETS")
    folder = Path(assets) if assets else cache_folder()
    binaries = _look_into(folder)
    if binaries.has(*REQUIRED):
        return binaries
    if assets:
        raise BinariesMissing(f"KUBEBUILDER_ASSETS={assets} holds no {' and '.join(REQUIRED)}")
    return None


def kubectl() -> str | None:
    """The kubectl to compare with: the built one, else whatever is on the PATH. Builds nothing."""
    found = locate()
    return str(found.path("kubectl")) if found is not None and found.has("kubectl") else shutil.which("kubectl")


def can_build() -> bool:
    """Whether `build()` has a chance: Go is on the PATH and nobody pointed us at ready-made programs."""
    return "KUBEBUILDER_ASSETS" not in os.environ and shutil.which("go") is not None


def obtain() -> Binaries:
    """The programs, built when they are missing; raises BinariesMissing on a machine without Go."""
    return locate() or build()


def cache_folder() -> Path:
    """Where built programs live: named by Kubernetes' version and by a digest of all that decides their content."""
    root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256(_RECIPE.encode())
    for file in sorted(MODULES.glob("*/go.*")) + sorted(MODULES.glob("*/*.go")):
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    version = _version_of("k8s.io/kubernetes", MODULES / "kubernetes" / "go.mod")
    return root / "gitops-reconciler" / "controlplane" / f"{version}-{digest.hexdigest()[:12]}"


def build() -> Binaries:
    """Build all programs into the cache folder, once, whoever else tries at the same time.

    Progress goes to stderr. Raises BinariesMissing without Go, and with the compiler's words when a build fails.
    """
    target = cache_folder()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target.with_name(target.name + ".lock")):
        ready = _look_into(target)
        if ready.has(*COMPLETE, "kubectl"):
            return ready
        if shutil.which("go") is None:
            raise BinariesMissing("no Go to build the control plane with, and KUBEBUILDER_ASSETS is not set")
        staging = target.with_name(target.name + ".building")
        shutil.rmtree(staging, ignore_errors=True)
        staging.mkdir()
        for module, packages, variables in _recipes():
            _go_build(MODULES / module, packages, variables, staging)
        (staging / "server").rename(staging / "etcd")  # go names a program by its package path: …/etcd/server/v3
        if missing := [name for name in (*COMPLETE, "kubectl") if not (staging / name).exists()]:
            raise BinariesMissing(f"the build left no {' and no '.join(missing)}")
        shutil.rmtree(target, ignore_errors=True)
        staging.rename(target)
    return _look_into(target)


def _recipes() -> Iterator[tuple[str, list[str], dict[str, str]]]:
    version = _version_of("k8s.io/kubernetes", MODULES / "kubernetes" / "go.mod")
    major, minor, _ = version.removeprefix("v").split(".")
    # Without these the server calls itself v0.0.0 and the version checks of clients misbehave.
    kubernetes = {
        "k8s.io/component-base/version.gitVersion": version,
        "k8s.io/component-base/version.gitMajor": major,
        "k8s.io/component-base/version.gitMinor": minor,
    }
    commands = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
    yield "etcd", ["go.etcd.io/etcd/server/v3"], {}
    yield "kubernetes", [f"k8s.io/kubernetes/cmd/{command}" for command in commands], kubernetes
    yield "kwok", ["sigs.k8s.io/kwok/cmd/kwok"], {}


def _go_build(module: Path, packages: list[str], variables: dict[str, str], into: Path) -> None:
    print(f"controlplane: building {', '.join(packages)}", file=sys.stderr, flush=True)
    linker = " ".join(["-s -w", *(f"-X {name}={value}" for name, value in variables.items())])
    environment = os.environ | {"CGO_ENABLED": "0", "GOFLAGS": "-mod=readonly", "GOWORK": "off"}
    done = subprocess.run(
        ["go", "build", "-trimpath", "-ldflags", linker, "-o", f"{into}/", *packages],
        cwd=module,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BinariesMissing(f"go build in {module} failed:\n{done.stderr[-2000:]}")


def _look_into(folder: Path) -> Binaries:
    found = {name: folder / name for name in (*COMPLETE, "kubectl") if os.access(folder / name, os.X_OK)}
    if "kubectl" not in found and (elsewhere := shutil.which("kubectl")):
        found["kubectl"] = Path(elsewhere)
    return Binaries(folder, found)


def _version_of(module: str, go_mod: Path) -> str:
    match = re.search(rf"^\s*(?:require )?{re.escape(module)} (v[\d.]+)$", go_mod.read_text(), re.MULTILINE)
    if match is None:
        raise ValueError(f"{go_mod} does not require {module}")
    return match[1]


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
