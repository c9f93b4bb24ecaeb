"""Our own documents, typed: one parsed YAML file in, one pydantic model and findings with file:line out.

pydantic's errors are translated into words for people and into the line of the field they are about. Values are quoted
only where they cannot be a secret.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from gitops.manifests import scalars
from gitops.manifests.codes import TOO_MANY_FINDINGS
from gitops.manifests.file_state import DEFAULT_LIMITS
from gitops.manifests.lines import Path, dotted
from gitops.manifests.raw import RawDocument
from gitops.model.catalogue import finding
from gitops.model.document_kinds import KINDS
from gitops.model.documents import API_VERSION, Document, Use, WrittenField, problems_in, written_fields
from gitops.model.durations import PATTERN as DURATION_PATTERN
from gitops.model.findings import Finding, Origin, has_errors
from gitops.model.identity import WorkloadRef
from gitops.plan import codes
from gitops.plan.salvaging import MATERIAL, STAND_INS, field_at, salvage
from gitops.policy import codes as policy_codes
from gitops.policy.credentials import credentials_in

_PATTERN_WORDS = {
    r"\S": "not blank",
    r"^\S+$": "without spaces",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "lower-case letters, digits and `-`, with a letter or digit at both ends",
    r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": "lower-case letters, digits, `-` and `.`, with a letter or digit at both ends",
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?/)?[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": "a name, or namespace/name",
    r"^[a-z0-9A-Z][a-z0-9A-Z\-_]*$": "letters, digits, `-` and `_`, beginning with a letter or digit",
    r"^[a-zA-Z0-9\-_:=]+$": "letters, digits and `- _ : =`",
    r"^(https|oci)://[^\s/@]+/[^\s@]+$": "a https:// or oci:// address without credentials",
    r"^[a-z0-9A-Z][a-z0-9A-Z_]*$": "letters, digits and `_`, beginning with a letter or digit",
    r"^[A-Za-z0-9][A-Za-z0-9._/:@-]*$": "an image such as registry.example/app:1.0",
    r"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$": "a UUID",
    r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$": "a path such as status.conditions",
    r"^(/[^/*]+)+/\*(/[^/*]+)?$": "a path such as /spec/components/*/name or /spec/services/*",
    r"^(/[^/]+)+$": "a path such as /spec/components/*/replicas",
    r"^[a-z0-9]+(-[a-z0-9]+)*$": "lower-case letters, digits and single `-` between them",
    r"^[A-Za-z0-9_.:@=/+-]+$": "one account: letters, digits and `_ . : @ = / + -`, no wildcard and no list",
    DURATION_PATTERN: "a duration such as PT90S, PT15M, PT8H or P1DT12H",
}
"""Every pattern of the models in words (tests/plan/test_documents.py)."""

_LIMITS_HINT = "docs/documents.md lists every field; `gitops schema` has the limits."

_SECRETS_HINT = "Remove it and revoke it: it is in the history now. These documents hold names only."

_LONGEST_NAME = 64
"""Characters of an unknown field that are compared with known ones."""

_IN_PATCHES = frozenset({"patch", "operations"})

D = TypeVar("D", bound=Document)

_TYPE_WORDS = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a map",
    "model_type": "a map",
    "model_attributes_type": "a map",
}


def typed(
    document: RawDocument, model: type[D], *, workload: WorkloadRef | None = None, partly: bool = False
) -> tuple[D | None, tuple[Finding, ...]]:
    """Read a document as a kind. The model is None when any finding is an error; `partly`: it is then what is sound of
    it, if that can be told, for further findings only.

    Checks, in this order: it is a map, its kind, its apiVersion, its fields, fields this version does not support.
    """
    body = document.body
    if not isinstance(body, dict):
        return None, (_at(document, (), codes.WRONG_KIND, f"expected a {model.__name__}, found no map", workload),)
    secrets = _credentials(document, workload)
    kind = body.get("kind")
    if kind != model.__name__:
        known = kind if isinstance(kind, str) and kind in KINDS else "another kind"
        message = f"expected kind {model.__name__}, found {known if kind is not None else 'no kind'}"
        return None, (*secrets, _at(document, ("kind",), codes.WRONG_KIND, message, workload))
    if body.get("apiVersion") != API_VERSION:
        message = f"apiVersion of a {model.__name__} is {API_VERSION}"
        return None, (*secrets, _at(document, ("apiVersion",), codes.WRONG_API_VERSION, message, workload))
    try:
        parsed = model.model_validate(body)
    except ValidationError as error:
        details = error.errors(include_url=False, include_context=True)
        wrong = (_explain(document, detail, workload, model) for detail in details)
        fields = [_meant(body, detail, model) for detail in details]
        rest = salvage(model, body, fields)
        further = _further(document, rest, fields, workload) if rest is not None else ()
        return rest if partly else None, (*secrets, *_bounded(wrong, document, workload), *further)
    findings = (*secrets, *_further(document, parsed, (), workload))
    return None if has_errors(findings) and not partly else parsed, findings


def _further(
    document: RawDocument, parsed: Document, wrong: Collection[Path], workload: WorkloadRef | None
) -> Iterator[Finding]:
    """Fields that contradict each other, and fields that do nothing. Nothing is said between the fields of a part of
    which one is wrong: the problem may be that one."""
    problems = problems_in(parsed, without={path[:-1] for path in wrong})
    contradictions = (_at(document, p.path, codes.RULES[p.rule], p.message, workload) for p in problems)
    yield from _bounded(contradictions, document, workload)
    yield from _unused_fields(document, parsed, workload)


def _meant(body: Any, detail: ErrorDetails, model: type[Document]) -> Path:
    """The field that an error is about: an unknown one as what was meant by it, and what lacks something whole."""
    path = _path_in(body, detail["loc"], missing=detail["type"] == "missing")
    if detail["type"] == "missing" and path[-1] not in STAND_INS:
        return field_at(path[:-1])
    if detail["type"] != "extra_forbidden" or (close := _close(str(path[-1]), _field_names(model))) not in MATERIAL:
        return field_at(path)
    return (*path[:-1], close)


def _credentials(document: RawDocument, workload: WorkloadRef | None) -> list[Finding]:
    """Values that look like credentials. Those of patches are judged in the merged objects, which may allow them."""
    return [
        _at(document, path, policy_codes.CREDENTIAL, f"{dotted(path)} looks like {what}", workload, _SECRETS_HINT)
        for path, what in credentials_in(document.body)
        if not _IN_PATCHES.intersection(path)
    ]


def _bounded(errors: Iterator[Finding], document: RawDocument, workload: WorkloadRef | None) -> Iterator[Finding]:
    """As many errors as are told of a manifest file."""
    yield from itertools.islice(errors, DEFAULT_LIMITS.findings)
    if next(errors, None) is not None:
        yield _at(document, (), TOO_MANY_FINDINGS, "further errors are not listed", workload)


def _unused_fields(document: RawDocument, parsed: Document, workload: WorkloadRef | None) -> list[Finding]:
    found = []
    for field in written_fields(parsed):
        if field.use is Use.REFUSED:
            found.append(_refused(document, field, workload))
        elif field.use is Use.RECORDED:
            message = f"{dotted(field.path)} is recorded and does nothing yet"
            found.append(_at(document, field.path, codes.RECORDED_ONLY, message, workload))
    return found


def _refused(document: RawDocument, field: WrittenField, workload: WorkloadRef | None) -> Finding:
    """What the model says of the field tells what to write in its place."""
    path, where = field.path, dotted(field.path)
    if path[-1] == "secrets":
        return _at(document, path, policy_codes.INLINE_SECRETS, f"{where} holds values of secrets", workload)
    if path[-1] in ("containerImage", "helmChart"):
        return _at(
            document, path, codes.NOT_RENDERED, f"{where} is checked, and not rendered by this version", workload
        )
    message = f"{where} is not supported by this version"
    return _at(document, path, codes.NOT_SUPPORTED, message, workload, field.words or None)


def _explain(
    document: RawDocument, detail: ErrorDetails, workload: WorkloadRef | None, model: type[Document]
) -> Finding:
    kind = detail["type"]
    path = _path_in(document.body, detail["loc"], missing=kind == "missing")
    where = dotted(path) or "the document"
    if kind == "missing":
        return _at(document, path, codes.MISSING_FIELD, f"{where} is missing", workload)
    if kind == "extra_forbidden":
        guess = _guess(str(path[-1]), _field_names(model))
        return _at(document, path, codes.UNKNOWN_FIELD, f"unknown field {where}{guess}", workload)
    if kind in _TYPE_WORDS:
        message = f"{where} must be {_TYPE_WORDS[kind]}, not {_describe(document, path, detail['input'])}"
    elif kind == "literal_error":
        message = f"{where} must be {detail['ctx']['expected']}"
    elif kind == "string_pattern_mismatch":
        message = f"{where} must be {_PATTERN_WORDS[detail['ctx']['pattern']]}"
    elif kind == "value_error":
        message = f"{where}: {detail['ctx']['error']}"
    else:
        message = f"{where}: {detail['msg'][:1].lower()}{detail['msg'][1:]}"
    hint = _hint(kind, detail["input"])
    return _at(document, path, codes.WRONG_VALUE, message, workload, hint)


def _hint(kind: str, value: Any) -> str | None:
    if kind == "string_type" and isinstance(value, bool | int | float):
        return None  # the catalogue's: quotes
    if kind in ("int_type", "bool_type") and isinstance(value, str):
        return "Write the value without quotes."
    return _LIMITS_HINT


def _guess(name: str, known: Collection[str]) -> str:
    if name in known:
        return ": it belongs elsewhere"
    close = _close(name, known)
    return f"; did you mean {close}?" if close else ""


def _close(name: str, known: Collection[str]) -> str:
    """The known name that is most like another, "" when none is."""
    return next(iter(difflib.get_close_matches(name[:_LONGEST_NAME], known, n=1, cutoff=0.7)), "")


def _describe(document: RawDocument, path: Path, value: Any) -> str:
    """A value's type, and the author's words for a number or truth value (never for text: it may be a secret)."""
    if value is None:
        return "empty"
    if isinstance(value, bool | int | float):
        written = document.lines.text_of(path)
        return scalars.described(value) + (f" (written {scalars.shown(written)})" if written else "")
    return "a list" if isinstance(value, list) else "a map" if isinstance(value, dict) else "text"


def _path_in(body: Any, location: Sequence[str | int], *, missing: bool) -> Path:
    """pydantic's location as a path of the document: tags of unions are left out, the last field of a `missing` one
    stays."""
    path: list[str | int] = []
    here = body
    for position, part in enumerate(location):
        try:
            here = here[part]
        except (KeyError, IndexError, TypeError):
            if missing and position == len(location) - 1:
                path.append(part)
            continue
        path.append(part)
    return tuple(path)


@cache
def _field_names(model: type[Document]) -> tuple[str, ...]:
    """Field names of a kind and of everything inside it, for guesses at what was meant."""
    names: set[str] = set()
    schema = model.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        names.update(part.get("properties", {}))
    return tuple(sorted(names))


def _at(
    document: RawDocument, path: Path, code: str, message: str, workload: WorkloadRef | None, hint: str | None = None
) -> Finding:
    origin = Origin(document.file, document.lines.line_of(path))
    return finding(code, message, origin, workload=workload, path=path, hint=hint)
