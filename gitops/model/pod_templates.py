"""What an OperatorType says of the pods and Services that its operator makes: where their fields are written."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gitops.model.documents import Checked, Document, NonBlank

FieldPath = Annotated[str, StringConstraints(pattern=r"^(/[^/]+)+$", max_length=253)]
"""With `*` for the items of a list or the keys of a map."""

PodForm = Literal["template", "spec", "metadata", "containers", "container", "hostPath", "userID"]


class PodTemplate(Document):
    """Where objects of a kind write what their pods are, for Pod Security.

    `form` is what is there: a pod's template, spec or metadata, a list of containers, one container, a path of the node
    that becomes a volume, or the user that containers run as.
    """

    group: Checked[str]
    kind: Checked[NonBlank]
    versions: Checked[Annotated[list[NonBlank], Field(min_length=1)]]
    path: Checked[FieldPath]
    form: Checked[PodForm]
    containerField: Checked[str] = ""
    """Field of the spec that holds one more container."""
    complete: Checked[bool] = False
    """The operator adds no security context of its own: what a level requires must be written here."""


class ServiceField(Document):
    """A field with the type of a Service that the operator makes."""

    group: Checked[str]
    kind: Checked[NonBlank]
    path: Checked[FieldPath]
