"""The typed documents: strict, and every field says what it is used for."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from gitops.model.document_kinds import KINDS
from gitops.model.documents import Document, Use, use_of, written_fields
from gitops.model.functions import FunctionDeployment, FunctionSpec
from gitops.model.patches import InlineMergePatch
from gitops.model.repositories import Repository


def every_model(cls=Document):
    """Every model of what people write, and of what is in it."""
    for model in cls.__subclasses__():
        yield model
        yield from every_model(model)


@pytest.mark.parametrize("model", sorted(set(every_model()), key=lambda m: m.__name__))
def test_every_field_says_what_it_is_used_for(model):
    assert all(use_of(model, name) in Use for name in model.model_fields)
    assert model.model_config["extra"] == "forbid"
    assert model.model_config["strict"]


def test_every_kind_is_listed():
    assert {name for name, model in KINDS.items() if model.__doc__} == {
        "Repository",
        "Cluster",
        "Function",
        "FunctionDeployment",
        "Task",
        "Bundle",
        "OperatorInstall",
        "OperatorType",
        "StatusMapping",
        "ValidationPolicy",
    }


def repository(**spec):
    return Repository.model_validate(
        {"apiVersion": "gitops/v1alpha1", "kind": "Repository", "metadata": {"name": "x"}, "spec": spec}
    )


def uses_in(document):
    return {field.path: field.use for field in written_fields(document)}


def test_written_fields_are_those_of_the_author():
    document = repository(adopt="never")
    uses = uses_in(document)
    assert uses["spec", "adopt"] is Use.APPLIED
    assert ("spec", "statusBranch") not in uses


def test_recorded_and_refused_fields_are_found_in_lists():
    spec = {
        "id": "h",
        "gpu": "H",
        "maxInstances": 2,
        "backend": "x",
        "manifestMergePatches": ["a.yaml", {"target": {"apiVersion": "v1", "kind": "K", "name": "n"}, "patch": {}}],
    }
    document = FunctionDeployment.model_validate(
        {
            "apiVersion": "gitops/v1alpha1",
            "kind": "FunctionDeployment",
            "metadata": {"name": "x"},
            "spec": {"gpuSpecifications": [spec]},
        }
    )
    uses = uses_in(document)
    at = ("spec", "gpuSpecifications", 0)
    assert uses[*at, "maxInstances"] is Use.RECORDED
    assert uses[*at, "backend"] is Use.REFUSED
    assert isinstance(document.spec.gpuSpecifications[0].manifestMergePatches[1], InlineMergePatch)


@pytest.mark.parametrize(
    "spec",
    [{"version": 1.2}, {"version": "1", "x": 1}, {"version": "1", "operatorTypes": ("a",)}, {"version": True}],
)
def test_documents_are_strict(spec):
    with pytest.raises(ValidationError):
        FunctionSpec.model_validate(spec)
