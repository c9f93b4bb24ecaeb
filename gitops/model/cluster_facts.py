"""The index of what a cluster tells of itself, as it is published; nobody writes it by hand."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from gitops.model.documents import ApiVersion, Applied, Checked, Document, Recorded

Words = Annotated[str, StringConstraints(max_length=1000)]


class Served(Document):
    """Kinds of one API version."""

    namespaced: Applied[list[Words]] = []
    cluster: Applied[list[Words]] = []


class Index(Document):
    """schemas/<cluster>/index.yaml"""

    apiVersion: Checked[ApiVersion]
    kind: Checked[Literal["ClusterFacts"]]
    cluster: Applied[Annotated[Words, Field(min_length=1)]]
    serverVersion: Recorded[Words] = ""
    operatorVersions: Applied[dict[Words, Words]] = {}
    refusedOperators: Applied[dict[Words, Words]] = {}
    served: Applied[dict[Words, Served] | None] = None
    silent: Applied[list[Words]] = []
    schemas: Applied[dict[Words, Words]] = {}
    digest: Checked[Words]
    """Of all the rest: half of an index reads like a cluster that serves less."""
