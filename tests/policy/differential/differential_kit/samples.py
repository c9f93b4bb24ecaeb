"""The objects of the upstream files, and the definitions of their kinds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Body = dict[str, Any]

CURRENT = ("dynamo/crds", "dynamo/crds-grove", "dynamo/crds-newer", "nim/crds", "karta")
"""Folders whose definitions can live on one API server. dynamo/crds-2026-04 has older ones of the same names."""

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_DEFINITION = "CustomResourceDefinition"
_SAMPLES = ("dynamo/golden", "dynamo/manifests", "dynamo/observability", "dynamo/karta", "karta", "nim/samples")
_EXAMPLES_OF_A_RELEASE = "nim/bundle-clusterserviceversion.yaml"


@dataclass(frozen=True, slots=True)
class Sample:
    """One document of one file; `body` is None where the file is no YAML. `index` counts the file's documents."""

    file: str
    index: int
    body: Body | None

    @property
    def gvk(self) -> tuple[str, str]:
        """apiVersion and kind."""
        assert self.body is not None
        return self.body["apiVersion"], self.body["kind"]

    def __str__(self) -> str:
        return f"{self.file}#{self.index}"


def read_samples(upstream: Path) -> Iterator[Sample]:
    """Every object of every sample, manifest and golden file, in order; definitions are not among them."""
    for folder in _SAMPLES:
        for file in sorted((upstream / folder).rglob("*")):
            if file.suffix in {".yaml", ".yml"}:
                yield from _of_file(file, str(file.relative_to(upstream)))
    release = yaml.load((upstream / _EXAMPLES_OF_A_RELEASE).read_text(), Loader=_LOADER)
    examples = yaml.load(release["metadata"]["annotations"]["alm-examples"], Loader=_LOADER)
    for index, body in enumerate(examples):
        yield Sample(f"{_EXAMPLES_OF_A_RELEASE}:alm-examples", index, body)


def _of_file(file: Path, name: str) -> Iterator[Sample]:
    try:
        documents = list(yaml.load_all(file.read_text(), Loader=_LOADER))
    except yaml.YAMLError:
        yield Sample(name, 0, None)
        return
    for index, body in enumerate(documents):
        if isinstance(body, dict) and body.get("kind") != _DEFINITION:
            yield Sample(name, index, body)


def read_definitions(*folders: Path) -> Iterator[Body]:
    """The definitions in folders, as they can be installed where no operator runs: without conversion webhooks."""
    for folder in folders:
        for file in sorted(folder.rglob("*.yaml")):
            if "kind: CustomResourceDefinition" not in file.read_text():
                continue
            for body in yaml.load_all(file.read_text(), Loader=_LOADER):
                if isinstance(body, dict) and body.get("kind") == _DEFINITION:
                    body.pop("status", None)
                    body["spec"].pop("conversion", None)
                    yield body


def schemas_of(definitions: Iterator[Body] | list[Body]) -> dict[tuple[str, str], Body]:
    """Schema by apiVersion and kind."""
    return {
        (f"{body['spec']['group']}/{version['name']}", body["spec"]["names"]["kind"]): version["schema"][
            "openAPIV3Schema"
        ]
        for body in definitions
        for version in body["spec"]["versions"]
        if version["served"]
    }
