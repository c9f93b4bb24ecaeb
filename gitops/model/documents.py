"""What every document people write is made of: strict models, whose fields say what they are used for.

`apiVersion: gitops/v1alpha1`, one pydantic model per kind (gitops/model/document_kinds.py lists them). Strict: an
unknown key, a wrong type or text where a number belongs is an error at its line (gitops/plan/documents.py turns
pydantic's errors into findings). Rules between fields are `problems()` of the model they concern, so that each has a
path of its own.

Every field says what the reconciler does with it: applied (it changes what runs), checked (it only refuses), recorded
(kept and shown, does nothing yet: a finding of level info says so) or refused (known, but not supported by this
version: an error, never a silent skip).
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints

API_VERSION = "gitops/v1alpha1"

Place = tuple[str | int, ...]
"""Keys and list positions, from the model that reports a problem."""


class Use(enum.StrEnum):
    """What the reconciler does with a field."""

    APPLIED = "applied"
    CHECKED = "checked"
    RECORDED = "recorded"
    REFUSED = "refused"


T = TypeVar("T")
Applied = Annotated[T, Use.APPLIED]
Checked = Annotated[T, Use.CHECKED]
Recorded = Annotated[T, Use.RECORDED]
Refused = Annotated[T, Use.REFUSED]

ApiVersion = Literal["gitops/v1alpha1"]
Mode = Literal["enforce", "report", "paused"]

WorkloadName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9A-Z][a-z0-9A-Z\-_]*$", min_length=1, max_length=128)]
"""NVCF's rule for names of functions and tasks: capitals and underscores allowed, so not a DNS label."""
DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", min_length=1, max_length=63)]
DnsName = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=253)]
NonBlank = Annotated[str, StringConstraints(pattern=r"\S", max_length=253)]
AccountId = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:@=/+-]+$", min_length=1, max_length=128)]
"""One account, to the letter: no list, no wildcard, nothing around it."""
AccountName = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", min_length=1, max_length=317
    ),
]
"""A ServiceAccount: `namespace/name`, or the name of one in gitops-system."""
RepoPath = Annotated[str, StringConstraints(min_length=1, max_length=1024)]


class Rule(enum.StrEnum):
    """Rules between fields of a document; each has its finding (gitops/plan/codes.py)."""

    MISSING = "missing"
    EXCLUSIVE = "exclusive"
    NOT_UNIQUE = "not unique"
    MIN_ABOVE_MAX = "min above max"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True)
class Problem:
    """A rule between fields that does not hold. `path` starts at the model that reports it; `message` has no secret."""

    rule: Rule
    path: Place
    message: str


class Document(BaseModel):
    """A document, or a part of one."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)

    def problems(self) -> Iterable[Problem]:
        """What is wrong between the fields of this part; parts inside it report for themselves."""
        return ()

    def wrote(self, *names: str) -> list[str]:
        """Those of the fields that the author wrote, also with null or empty values."""
        return [name for name in names if name in self.model_fields_set]


class LabelMetadata(Document):
    name: Applied[DnsLabel]


class WorkloadMetadata(Document):
    name: Applied[WorkloadName]


@cache
def use_of(model: type[Document], field: str) -> Use:
    """How a field is used. Raises KeyError for an unknown field, LookupError for one that says nothing."""
    for marker in model.model_fields[field].metadata:
        if isinstance(marker, Use):
            return marker
    raise LookupError(f"{model.__name__}.{field} does not say what it is used for")


@cache
def written_name(model: type[Document], field: str) -> str:
    """What people write for a field: its alias where it has one (`in` is a word of Python)."""
    return model.model_fields[field].alias or field


@dataclass(frozen=True, slots=True)
class WrittenField:
    """A field that the author wrote."""

    path: Place
    model: type[Document]
    name: str

    @property
    def use(self) -> Use:
        return use_of(self.model, self.name)

    @property
    def words(self) -> str:
        """What the model says of it; "" when its name says all."""
        return " ".join((self.model.model_fields[self.name].description or "").split())


def written_fields(document: Document) -> Iterator[WrittenField]:
    """Every field that the author wrote; a recorded or refused field is not looked into."""
    for path, part in parts_of(document, only_used=True):
        model = type(part)
        for name in sorted(part.model_fields_set):
            yield WrittenField((*path, written_name(model, name)), model, name)


def problems_in(document: Document, *, without: Collection[Place] = ()) -> Iterator[Problem]:
    """Problems of the document and of all its parts but for those at the places `without`; paths start at the
    document."""
    for path, part in parts_of(document):
        for problem in part.problems() if path not in without else ():
            yield Problem(problem.rule, (*path, *problem.path), problem.message)


def parts_of(document: Document, path: Place = (), *, only_used: bool = False) -> Iterator[tuple[Place, Document]]:
    """The document and every model inside it, with its path; with `only_used` none in recorded or refused fields."""
    yield path, document
    model = type(document)
    for name in sorted(document.model_fields_set):
        if not only_used or use_of(model, name) in (Use.APPLIED, Use.CHECKED):
            here = (*path, written_name(model, name))
            yield from _inside(getattr(document, name), here, only_used)


def _inside(value: Any, path: Place, only_used: bool) -> Iterator[tuple[Place, Document]]:
    if isinstance(value, Document):
        yield from parts_of(value, path, only_used=only_used)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _inside(item, (*path, index), only_used)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _inside(item, (*path, key), only_used)
