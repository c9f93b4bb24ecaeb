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


def test_there_are_enough_and_each_is_different():
    assert len(VARIANTS) >= 40
    assert len({tuple(v["expect"]) for v in VARIANTS}) > 40
