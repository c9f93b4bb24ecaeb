"""What is left of a document with errors: everything that does not depend on what is wrong, or nothing."""

from __future__ import annotations

import pytest

from gitops.model.functions import FunctionDeployment
from gitops.plan.salvaging import MATERIAL, field_at, salvage

GPU = {"id": "h100", "gpu": "H100", "minInstances": 2}
DEPLOYMENT = {
    "apiVersion": "gitops/v1alpha1",
    "kind": "FunctionDeployment",
    "metadata": {"name": "chat"},
    "spec": {"serviceName": "chat", "gpuSpecifications": [GPU]},
}
AT = ("spec", "gpuSpecifications", 0)


def without(path, value="?"):
    """The deployment with `value` at the path, and what is salvaged when that is what is wrong."""
    body = {**DEPLOYMENT, "spec": {**DEPLOYMENT["spec"], "gpuSpecifications": [dict(GPU)]}}
    holder = body
    for segment in path[:-1]:
        holder = holder[segment]
    holder[path[-1]] = value
    found = salvage(FunctionDeployment, body, [path])
    assert holder[path[-1]] == value  # what was read is not changed
    return found


@pytest.mark.parametrize("field", ["minInstances", "nonsense"])
def test_a_wrong_field_is_left_out(field):
    found = without((*AT, field))
    assert found.spec.serviceName == "chat"
    assert found.spec.gpuSpecifications[0].minInstances == (1 if field == "minInstances" else 2)


def test_a_needed_field_has_a_stand_in_where_nothing_depends_on_it():
    assert without((*AT, "gpu"), 5).spec.gpuSpecifications[0].id == "h100"
    assert without((*AT, "id"), 5) is None


@pytest.mark.parametrize("field", sorted(MATERIAL))
def test_without_what_objects_are_made_of_nothing_is_left(field):
    assert without((*AT, field)) is None
    assert without(("spec", field)) is None


def test_of_a_list_with_a_wrong_item_nothing_stays_because_others_would_move():
    assert field_at((*AT, "regions", 0)) == (*AT, "regions")
    assert without((*AT, "regions"), [5]).spec.gpuSpecifications[0].regions == []
    assert salvage(FunctionDeployment, DEPLOYMENT, [field_at(AT)]) is None
