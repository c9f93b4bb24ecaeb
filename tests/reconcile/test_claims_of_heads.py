"""What a head means while workloads have errors: last good units, and whose an object is that moved meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml

from gitops.model.identity import ClusterName, Commit, WorkloadKind, WorkloadRef
from gitops.plan import codes
from gitops.plan.compiling import Compiler
from gitops.plan.pruning import Consent
from gitops.policy.registry import OperatorRegistry
from gitops.reconcile.heads import Head, Heads
from gitops.source.sources import FolderSource

DOCUMENTS = {
    "gitops.yaml": "apiVersion: gitops/v1alpha1\nkind: Repository\nmetadata: {name: demo}\n",
    "clusters/a.yaml": "apiVersion: gitops/v1alpha1\nkind: Cluster\nmetadata: {name: a}\nspec: {credentials: a}\n",
}
BROKEN = "kind: [ConfigMap\n"
FORBIDDEN = yaml.safe_dump(
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "bad", "namespace": "gitops-system"}, "data": {}}
)
CONSENT = Consent()


def bundle(name: str, *names: str, broken: bool = False) -> dict[str, str]:
    """A bundle with these ConfigMaps; broken: with a manifest more that is no YAML."""
    document = {"apiVersion": "gitops/v1alpha1", "kind": "Bundle", "metadata": {"name": name}}
    files = {"bundle.yaml": yaml.safe_dump({**document, "spec": {"manifests": ["manifests/"]}})}
    for item in names:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": item, "namespace": "shop"}, "data": {}}
        files[f"manifests/{item}.yaml"] = yaml.safe_dump(body)
    if broken:
        files["manifests/broken.yaml"] = BROKEN
    return {f"bundles/{name}/{path}": text for path, text in files.items()}


def ref(name: str) -> WorkloadRef:
    return WorkloadRef(WorkloadKind.BUNDLE, name)


class Repository:
    """A folder and the heads that come of it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.source = FolderSource(path, status_folder=path.parent / "status")
        self.heads = Heads(self.source, Compiler(OperatorRegistry.shipped()))

    async def head(self, files: Mapping[str, str]) -> Head:
        """What the folder means with exactly these files."""
        for old in sorted(self.path.rglob("*"), reverse=True):
            old.rmdir() if old.is_dir() else old.unlink()
        for name, text in {**DOCUMENTS, **files}.items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)
        commit, _ = await self.source.look()
        assert commit is not None
        head = await self.heads.compile(Commit(commit), {})
        assert head is not None
        return head


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    (tmp_path / "repository").mkdir()
    return Repository(tmp_path / "repository")


def declared(head: Head) -> dict[str, list[str]]:
    """Names of objects by bundle."""
    return {key.name: sorted(o.ref.name for o in unit.objects) for key, unit in head.units.items()}


async def test_a_broken_bundle_keeps_its_last_good_units(repository: Repository) -> None:
    await repository.head(bundle("web", "one", "two"))
    head = await repository.head(bundle("web", "one", broken=True))
    assert declared(head) == {"web": ["one", "two"]}


async def test_r05_what_a_broken_bundle_may_have_taken_is_known_or_everything_is_withheld(
    repository: Repository,
) -> None:
    """A renamed bundle with a typo: nothing may be deleted before the typo is mended."""
    await repository.head(bundle("web", "one"))
    assignment = (await repository.head(bundle("site", "one", broken=True))).for_cluster(ClusterName("a"), CONSENT)
    assert assignment.opaque == {ref("site")}
    misnamed = bundle("site", "one") | {"bundles/site/manifests/bad.yaml": FORBIDDEN}
    assignment = (await repository.head(misnamed)).for_cluster(ClusterName("a"), CONSENT)
    assert assignment.held == {ref("site")}
    assert assignment.opaque == frozenset()
    assert "one" in {r.name for r in assignment.named}


async def test_r06_an_object_that_moves_out_of_a_broken_bundle_stays_where_it_was(repository: Repository) -> None:
    """Two units would declare it: the broken one by its last good commit, the other by the head."""
    await repository.head(bundle("web", "one", "two") | bundle("api", "three"))
    moved = bundle("web", "one", broken=True) | bundle("api", "two", "three", "four")
    head = await repository.head(moved)
    assert declared(head) == {"web": ["one", "two"], "api": ["three"]}
    assert head.held == {ref("web"), ref("api")}
    assert [f.workload for f in head.compilation.errors if f.code == codes.TWO_OWNERS] == [ref("api")]
    head = await repository.head(bundle("web", "one") | bundle("api", "two", "three", "four"))
    assert declared(head) == {"web": ["one"], "api": ["four", "three", "two"]}
    assert head.held == frozenset()


async def test_a_third_bundle_that_claims_from_the_second_stays_too(repository: Repository) -> None:
    await repository.head(bundle("web", "one") | bundle("api", "two") | bundle("jobs", "three"))
    head = await repository.head(bundle("web", broken=True) | bundle("api", "one") | bundle("jobs", "two", "three"))
    assert declared(head) == {"web": ["one"], "api": ["two"], "jobs": ["three"]}
