"""JSON Schemas: valid themselves, strict, and of one mind with the models."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from pydantic import ValidationError

from gitops.manifests.reading import read_documents
from gitops.model.document_kinds import KINDS
from gitops.model.documents import Document, Use, use_of
from gitops.model.schemas import schema_of

ROOT = Path(__file__).resolve().parents[2]
USE = re.compile(r"\b(Applied|Checked|Recorded|Refused): [^:]+\.$")
DRAFT = "https://json-schema.org/draft/2020-12/schema"


def objects(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema of a model, at any depth."""
    if isinstance(schema, dict):
        if isinstance(schema.get("properties"), dict):
            yield schema
        for value in schema.values():
            yield from objects(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from objects(value)


def documents() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """(file, kind, body) of every document of ours in the example repository and among the shipped policies."""
    for file in sorted([*ROOT.glob("repo-template/**/*.yaml"), *ROOT.glob("policies/**/*.yaml")]):
        for document in read_documents(file.read_bytes(), file=file.name).documents:
            if isinstance(document.body, dict) and document.body.get("kind") in KINDS:
                yield str(file.relative_to(ROOT)), document.body["kind"], document.body


DOCUMENTS = list(documents())


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_schema_is_a_valid_one_of_its_draft(kind: str) -> None:
    schema = schema_of(kind)
    assert schema["$schema"] == DRAFT
    assert "$id" not in schema
    jsonschema_rs.meta.validate(schema)
    assert schema == schema_of(kind)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_schema_is_strict_and_described(kind: str) -> None:
    schema = schema_of(kind)
    assert schema["title"] == kind
    assert schema["description"] == " ".join(KINDS[kind].__doc__.split())
    assert schema["properties"]["kind"]["const"] == kind
    found = list(objects(schema))
    assert len(found) > 2
    for model in found:
        assert model["additionalProperties"] is False
        for name, field in model["properties"].items():
            assert "title" not in field, "a title made of the name says nothing"
            assert field["description"].split(": ")[-2].split()[-1] in ("Applied", "Checked", "Recorded", "Refused"), (
                name
            )


def models(model: type[Document], schema: dict[str, Any]) -> Iterator[tuple[type[Document], dict[str, Any]]]:
    """The models of a kind with their part of the schema."""
    everything = {m.__name__: m for m in all_models(Document)}
    yield model, schema
    for name, part in schema.get("$defs", {}).items():
        yield everything[name], part


def all_models(model: type[Document]) -> Iterator[type[Document]]:
    for child in model.__subclasses__():
        yield child
        yield from all_models(child)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_field_says_what_it_is_used_for(kind: str) -> None:
    for model, part in models(KINDS[kind], schema_of(kind)):
        for name, info in model.model_fields.items():
            field = part["properties"][info.alias or name]
            use = use_of(model, name)
            assert f"{use.capitalize()}: " in field["description"]
            assert (field.get("not") == {}) == (use is Use.REFUSED)
            if info.description:
                assert field["description"].startswith(" ".join(info.description.split()))


def test_docstrings_of_fields_are_descriptions() -> None:
    fields = schema_of("Repository")["$defs"]["RepositorySpec"]["properties"]
    assert fields["allowEmpty"]["description"].startswith("Consent to a tree without any workload")
    assert fields["allowEmpty"]["description"].endswith("Applied: it changes what runs.")


@pytest.mark.parametrize(("file", "kind", "body"), DOCUMENTS, ids=[file for file, _, _ in DOCUMENTS])
def test_documents_that_ship_are_valid(file: str, kind: str, body: dict[str, Any]) -> None:
    validator = jsonschema_rs.validator_for(schema_of(kind))
    assert [error.message for error in validator.iter_errors(body)] == []


def changed(body: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    if not path:
        return value
    head, *rest = path
    copy = list(body) if isinstance(body, list) else dict(body)
    copy[head] = changed(copy[head] if rest else None, tuple(rest), value)
    return copy


@pytest.mark.parametrize(
    ("kind", "path", "value"),
    [
        ("Repository", ("spec", "alowEmpty"), True),
        ("Repository", ("kind",), "Cluster"),
        ("Repository", ("apiVersion",), "v1"),
        ("Repository", ("metadata", "name"), "Has_Capitals"),
        ("Repository", ("metadata", "labels"), {}),
        ("Cluster", ("spec", "mode"), "off"),
        ("Cluster", ("spec", "gpus", 0, "capacity"), -1),
        ("Cluster", ("spec", "gpus", 0, "capacity"), "8"),
        ("Cluster", ("spec", "gpus", 0, "name"), " "),
        ("Function", ("spec", "version"), 1.2),
        ("Function", ("spec", "manifests"), []),
        ("FunctionDeployment", ("spec", "gpuSpecifications", 0, "minInstances"), "2"),
        ("FunctionDeployment", ("spec", "gpuSpecifications", 0, "minInstances"), True),
        ("FunctionDeployment", ("spec", "patches"), [{"target": {"apiVersion": "v1", "kind": "K"}, "patch": {}}]),
    ],
)
def test_what_the_reader_refuses_the_schema_refuses(kind: str, path: tuple[str | int, ...], value: Any) -> None:
    good = next(body for _, found, body in DOCUMENTS if found == kind)
    bad = changed(good, path, value)
    with pytest.raises(ValidationError):
        KINDS[kind].model_validate(bad)
    assert not jsonschema_rs.validator_for(schema_of(kind)).is_valid(bad)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_field_that_this_version_refuses_is_refused_whatever_it_holds(kind: str) -> None:
    refused = [
        (name, schema["properties"][name])
        for schema in objects(schema_of(kind))
        for name in schema["properties"]
        if "Refused: " in schema["properties"][name]["description"]
    ]
    for name, schema in refused:
        for value in (None, {}, [], "x", 1):
            assert not jsonschema_rs.is_valid(schema, value), name
