"""What went wrong at an API server, as a class that says what to do next. Decided here and nowhere else.

Neither the HTTP code nor `reason` is enough: a webhook denies with any code from 403 to 504, a schema error of an
apply arrives as 500 without a reason, and a missing namespace, a missing role and a missing object are all 404. So an
answer is held against the rows of error_table.py, messages first, and takes the class of the first that fits.

`ApiError` is a value (outcomes carry it). `RequestFailed` is the exception around it, raised only by the connection
when there is no answer to look at.
"""

from __future__ import annotations

import email.utils
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gitops.cluster.error_table import (
    BY_GIVEN,
    BY_ID,
    DELETING,
    DRY_RUN_UNSUPPORTED,
    LIVE_SCHEMA_MISMATCH,
    ROWS,
    SCHEMA_MISMATCH,
    STORAGE_STARTING,
    TREATMENTS,
    VERSION_GONE,
    ErrorClass,
    Row,
)
from gitops.readiness.texts import one_line

__all__ = [
    "DELETING",
    "DRY_RUN_UNSUPPORTED",
    "LIVE_SCHEMA_MISMATCH",
    "SCHEMA_MISMATCH",
    "STORAGE_STARTING",
    "VERSION_GONE",
    "ApiError",
    "Cause",
    "ErrorClass",
    "FieldConflict",
    "RequestFailed",
    "backoff",
    "classify",
    "classify_status",
    "cut",
    "given",
    "unreachable",
]

MESSAGE_LIMIT = 256
"""Characters kept of a server's message; enough for every text we know, too little for a copied object."""

_CAUSE_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `status.details.causes`."""

    reason: str
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class FieldConflict:
    """Another manager owns a field that we applied. `field` is the server's rendering, which is ambiguous: match it
    against rendered payload paths, never parse it. `subresource` is set when the owner wrote through one."""

    manager: str
    field: str
    subresource: str = ""


@dataclass(frozen=True, slots=True)
class ApiError:
    """A failed call. `status` is the HTTP code, 0 when there was none. `message` is cut and holds no body.

    `reason` is the server's, or one of ours in CamelCase where the server gave none. `retry_after` is the server's wish
    in seconds. `waits_for` names what a WAITING error waits for (`namespace demo`, `kind NIMCache.apps.nvidia.com`).
    `row` is the id of the row of the taxonomy that it fits, "" for what the server had no part in.
    """

    cls: ErrorClass
    status: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after: float | None = None
    waits_for: str = ""
    row: str = field(default="", compare=False)

    @property
    def conflicts(self) -> tuple[FieldConflict, ...]:
        """(manager, field) pairs of a CONFLICT, one per cause."""
        return tuple(_field_conflict(cause) for cause in self.causes if cause.reason == "FieldManagerConflict")

    @property
    def is_schema(self) -> bool:
        """The payload does not fit the schema; for some milliseconds after a CRD changed, perhaps the old one."""
        return self.reason == SCHEMA_MISMATCH

    @property
    def dry_run_unsupported(self) -> bool:
        """A webhook with side effects cannot be asked in a dry run; the real call may well succeed."""
        return self.reason == DRY_RUN_UNSUPPORTED

    @property
    def hint(self) -> str:
        """What people can do about it; "" where there is nothing to say."""
        return BY_ID[self.row].hint if self.row else ""

    def wait(self, attempt: int, rng: random.Random) -> float:
        """Seconds before attempt number `attempt + 1` (attempts count from 1); never sooner than the server asked.

        For some milliseconds after a CRD changed the server still holds a payload against the old schema, so the first
        refusals for that reason are looked at again soon (`Row.soon`); one that stays is refused like any other.
        """
        early = bool(self.row) and attempt <= BY_ID[self.row].soon
        return max(backoff(ErrorClass.RETRY if early else self.cls, attempt, rng), self.retry_after or 0.0)

    def __str__(self) -> str:
        what = f"waiting for {self.waits_for}" if self.waits_for else self.cls
        code = f"HTTP {self.status}" if self.status else "no answer"
        hint = f" [{self.hint}]" if self.hint else ""
        return f"{what}: {self.message or self.reason or code}{hint}"


class RequestFailed(Exception):
    """No usable answer: the network, TLS, the credentials or a watch that could not be opened. `error` says which."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


def classify(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    resource: str = "",
    applying: bool = False,
) -> ApiError:
    """The class of an HTTP answer that is not a success.

    `resource` is the plural of the object asked for: it tells "this namespace is gone" from "its namespace is missing".
    `applying` says that the call was a server-side apply: its 404 is always about something else than the object.
    """
    document = _status_document(body)
    if document is not None:
        error = _classify_status(document, status, resource=resource, applying=applying)
    else:
        error = _classify_plain(status, body)
    pause = _retry_after(headers)
    return replace(error, retry_after=pause) if pause is not None else error


def classify_status(document: Mapping[str, Any]) -> ApiError:
    """The same for a `Status` object that came inside an answer, as the ERROR event of a watch does."""
    code = document.get("code")
    return _classify_status(document, code if isinstance(code, int) else 500, resource="", applying=False)


def given(reason: str, message: str, *, status: int = 0, waits_for: str = "") -> ApiError:
    """The error of a call that we judge ourselves, by one of the reasons in the table (`Row.given`)."""
    row = BY_GIVEN[reason]
    return ApiError(row.cls, status, reason, cut(message), waits_for=waits_for, row=row.id)


def unreachable(message: str, *, reason: str = "Unreachable") -> ApiError:
    """An ApiError for a call that got no answer, or none of a Kubernetes API."""
    return given(reason, message)


def backoff(cls: ErrorClass, attempt: int, rng: random.Random) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1): doubling, capped, with half of it random, so that
    many objects (or many daemons) that failed together do not come back together."""
    treatment = TREATMENTS[cls]
    delay = min(treatment.longest, treatment.first * 2.0 ** min(max(attempt, 1) - 1, 30))
    return float(delay * (0.5 + rng.random() / 2))


def cut(text: str) -> str:
    """One line of at most MESSAGE_LIMIT characters, without credentials: webhooks and schema errors quote values."""
    return one_line(text, MESSAGE_LIMIT)


# -- reading the answer ----------------------------------------------------------------------------------------------


def _status_document(body: bytes) -> Mapping[str, Any] | None:
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if isinstance(document, dict) and document.get("kind") == "Status":
        return document
    return None


def _retry_after(headers: Mapping[str, str]) -> float | None:
    value = headers.get("Retry-After", "").strip()
    if not value:
        return None
    if value.isdigit():
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What rows look at."""

    status: int
    message: str = ""
    causes: tuple[Cause, ...] = ()
    about: str = ""
    name: str = ""
    resource: str = ""
    applying: bool = False
    plain: bool = False

    @property
    def elsewhere(self) -> bool:
        """A 404 about something else than the object asked for: an apply creates that one."""
        return self.applying or (self.about == "namespaces" and self.resource != "namespaces")

    def fits(self, row: Row) -> bool:
        return (
            not row.given
            and (not row.codes or self.status in row.codes)
            and (row.message is None or row.message.search(self.message) is not None)
            and (row.plain is None or row.plain == self.plain)
            and (row.applying is None or row.applying == self.applying)
            and (row.elsewhere is None or row.elsewhere == self.elsewhere)
            and (not row.about or self.about in row.about)
            and not (row.nameless and (self.about or self.name))
            and self._causes_fit(row)
        )

    def _causes_fit(self, row: Row) -> bool:
        if row.without_causes:
            return not self.causes
        if row.only_field:
            return bool(self.causes) and all(cause.field == row.only_field for cause in self.causes)
        return not row.cause or any(
            cause.reason == row.cause and (row.cause_message is None or row.cause_message.search(cause.message))
            for cause in self.causes
        )


def _judge(answer: _Answer) -> tuple[Row, str]:
    """The row that an answer fits, and what it waits for. The last row fits everything."""
    row = next(row for row in ROWS if answer.fits(row))
    match = row.message.search(answer.message) if row.message else None
    groups = match.groups() if match else ()
    return row, row.waits_for.format(*groups, about=answer.about or "object", name=answer.name).strip()


def _classify_plain(status: int, body: bytes) -> ApiError:
    """An answer that is no Status: a proxy's page, or the API server's own 404 for a path that it does not serve."""
    row, waits_for = _judge(_Answer(status, plain=True))
    # Nothing of such a body is quoted: nobody knows what is in it.
    message = row.says or f"HTTP {status} without a Kubernetes status"
    return ApiError(row.cls, status, row.reason, message, waits_for=waits_for, row=row.id)


def _classify_status(document: Mapping[str, Any], status: int, *, resource: str, applying: bool) -> ApiError:
    message = _text(document.get("message"))
    details = document.get("details")
    details = details if isinstance(details, dict) else {}
    causes, about = tuple(_causes(details)), _text(details.get("kind"))
    row, waits_for = _judge(
        _Answer(status, message, causes, about, _text(details.get("name")), resource=resource, applying=applying)
    )
    pause = details.get("retryAfterSeconds")
    return ApiError(
        cls=row.cls,
        status=status,
        reason=row.reason or _text(document.get("reason")),
        message=cut(_without_values(message, about)),
        causes=tuple(replace(c, message=cut(_without_values(c.message, about))) for c in causes[:_CAUSE_LIMIT]),
        retry_after=float(pause) if isinstance(pause, int) and pause > 0 else None,
        waits_for=waits_for,
        row=row.id,
    )


def _causes(details: Mapping[str, Any]) -> list[Cause]:
    causes = details.get("causes")
    if not isinstance(causes, list):
        return []
    return [
        Cause(_text(c.get("reason")), _text(c.get("field")), _text(c.get("message")))
        for c in causes
        if isinstance(c, dict)
    ]


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_CONFLICT = re.compile(r'conflict with "(?P<manager>.*?)"(?: with subresource "(?P<subresource>[^"]*)")?')


def _field_conflict(cause: Cause) -> FieldConflict:
    # Forms: `conflict with "x"`, `… "x" using apps/v1`, `… "x" with subresource "scale" using apps/v1`.
    match = _CONFLICT.search(cause.message)
    if match is None:
        return FieldConflict("", cause.field)
    return FieldConflict(match["manager"], cause.field, match["subresource"] or "")


_TYPED_VALUE = re.compile(r"&value\.valueUnstructured\{Value:.*?\}(?=$|[\s,;\]])")
_INVALID_VALUE = re.compile(r'(Invalid value|Unsupported value|Duplicate value): (?:"(?:[^"\\]|\\.)*"|\S+)')


def _without_values(message: str, about: str) -> str:
    """Drop values from a message where they may be secret or are only noise; paths and rules stay."""
    message = _TYPED_VALUE.sub("a value of another type", message)
    if about.lower() in ("secret", "secrets") or "Kind=Secret)" in message:
        message = _INVALID_VALUE.sub(r"\1: (hidden)", message)
    return message
