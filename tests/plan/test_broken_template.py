"""The example repository, broken in one way each: exactly what is said, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from gitops.model.trees import EntryKind

TEMPLATE = Path(__file__).resolve().parents[2] / "repo-template"
TOKEN = "ghp_" + "a" * 40
VARIANTS = yaml.safe_load((Path(__file__).parent / "data" / "broken_template.yaml").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def template():
    return {str(p.relative_to(TEMPLATE)): p.read_text() for p in sorted(TEMPLATE.rglob("*.yaml"))}


def broken(files, variant):
    if "remove" in variant:
        return {path: text for path, text in files.items() if path != variant["remove"]}
    if "write" in variant:
        return {**files, variant["write"]: variant["text"]}
    if "link" in variant:
        return {**files, variant["link"]: EntryKind.SYMLINK}
    text = files[variant["file"]]
    assert variant["old"] in text
    return {**files, variant["file"]: text.replace(variant["old"], variant["new"].replace("$TOKEN", TOKEN), 1)}


def told(result):
    return [f"{f.code} {f.origin}" for f in result.findings]


@pytest.fixture
def usual(compiler, tree_of, template):
    return told(compiler.compile(tree_of(template)))


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant["id"])
def test_broken_variant(compiler, tree_of, template, usual, variant):
    found = told(compiler.compile(tree_of(broken(template, variant))))
    stays = [line for line in usual if line not in variant.get("without", ())]
    assert sorted(found) == sorted([*variant["expect"], *stays])


BY_ID = {variant["id"]: variant for variant in VARIANTS}


@pytest.mark.parametrize(
    "together",
    [
        ("version-as-number", "tag-as-number", "no-cluster-with-that-gpu"),
        ("telemetry-without-an-id", "kind-of-another-operator", "no-cluster-with-that-gpu"),
        ("inline-secrets", "kind-that-the-repository-refuses"),
        ("unknown-operator", "misspelled-kind", "policy-as-nvcf-names-it"),
        ("misspelled-field", "duplicate-key", "overlay-with-a-directive", "file-that-nothing-names"),
        ("two-specifications-with-one-id", "namespace-in-a-function", "overlay-sets-a-finalizer"),
        ("both-manifests-and-image", "tag-as-number"),
        ("unknown-key-in-bundle", "env-value-as-number"),
        ("patch-of-a-bundle-for-another-name", "misspelled-kind", "namespace-in-a-function"),
        ("task-with-results", "null-in-a-manifest-of-a-task"),
        ("task-with-a-short-deadline", "null-in-a-manifest-of-a-task"),
    ],
    ids=" ".join,
)
def test_no_mistake_hides_another(compiler, tree_of, template, usual, together):
    files, expected, gone = template, [], set()
    for name in together:
        files = broken(files, BY_ID[name])
        expected += BY_ID[name]["expect"]
        gone.update(BY_ID[name].get("without", ()))
    found = told(compiler.compile(tree_of(files)))
    assert sorted(found) == sorted({*expected, *(line for line in usual if line not in gone)})


def test_there_are_enough_and_each_is_different():
    assert len(VARIANTS) >= 40
    assert len({tuple(v["expect"]) for v in VARIANTS}) > 40
