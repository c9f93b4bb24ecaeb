"""What went wrong at an API server, as a class that says what to do next. Decided here and nowhere else.

Neither the HTTP code nor `reason` is enough: a webhook denies with any code from 403 to 504, a schema error of an
apply arrives as 500 without a reason, and a missing namespace, a missing role and a missing object are all 404. So the
message is matched first, then causes, then reason, then the code. Rules and texts were taken from a live 1.34 server;
the table at the end of this module lists them.

`ApiError` is a value (outcomes carry it). `RequestFailed` is the exception around it, raised only by the connection
when there is no answer to look at.
"""

from __future__ import annotations

import email.utils
import enum
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from gitops.readiness.texts import one_line

MESSAGE_LIMIT = 256
"""Characters kept of a server's message; enough for every text we know, too little for a copied object."""

_CAUSE_LIMIT = 64


class ErrorClass(enum.StrEnum):
    """What an error means for the object it is about."""

    DENIED = "denied"  # a webhook or admission policy said no; it may say yes later
    REFUSED = "refused"  # permanent until Git or the cluster's rules change
    WAITING = "waiting"  # something else has to exist or go first: ApiError.waits_for
    BLOCKED = "blocked"  # the live object (or a neighbour) stands in the way
    CONFLICT = "conflict"  # fields belong to other managers: ApiError.conflicts
    GONE = "gone"  # the object does not exist
    STALE = "stale"  # a uid, resourceVersion or `test` precondition did not hold: read again
    RETRY = "retry"  # transient, or throttled
    UNREACHABLE = "unreachable"  # no answer
    FORBIDDEN = "forbidden"  # our rights do not allow it (RBAC)
    UNAUTHORIZED = "unauthorized"  # our credentials are not accepted
    EXPIRED = "expired"  # the resourceVersion is too old: list again


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
    """

    cls: ErrorClass
    status: int = 0
    reason: str = ""
    message: str = ""
    causes: tuple[Cause, ...] = ()
    retry_after: float | None = None
    waits_for: str = ""

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

    def wait(self, attempt: int, rng: random.Random) -> float:
        """Seconds before attempt number `attempt + 1` (attempts count from 1); never sooner than the server asked.

        For some milliseconds after a CRD changed the server still holds a payload against the old schema, so the first
        refusals for that reason are looked at again soon; one that stays is refused like any other.
        """
        early = self.is_schema and attempt <= SCHEMA_LOOKS
        return max(backoff(ErrorClass.RETRY if early else self.cls, attempt, rng), self.retry_after or 0.0)

    def __str__(self) -> str:
        what = f"waiting for {self.waits_for}" if self.waits_for else self.cls
        code = f"HTTP {self.status}" if self.status else "no answer"
        return f"{what}: {self.message or self.reason or code}"


class RequestFailed(Exception):
    """No usable answer: the network, TLS, the credentials or a watch that could not be opened. `error` says which."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(str(error))
        self.error = error


SCHEMA_LOOKS = 2
"""How often an apply that does not fit the schema is tried again soon."""

SCHEMA_MISMATCH = "SchemaMismatch"
STORAGE_STARTING = "StorageStarting"
"""For some milliseconds after a definition changed. It comes as 429, but nobody is asked to spare the cluster."""
DRY_RUN_UNSUPPORTED = "DryRunUnsupported"
DELETING = "Deleting"
"""Our reason where an apply was answered with an object that is on its way out."""
VERSION_GONE = "VersionGone"
LIVE_SCHEMA_MISMATCH = "LiveSchemaMismatch"


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


def unreachable(message: str, *, reason: str = "Unreachable") -> ApiError:
    """An ApiError for a call that got no answer."""
    return ApiError(ErrorClass.UNREACHABLE, reason=reason, message=cut(message))


_BACKOFF: dict[ErrorClass, tuple[float, float]] = {
    # first pause and longest pause, in seconds; doubles in between
    ErrorClass.DENIED: (10.0, 600.0),
    ErrorClass.REFUSED: (60.0, 3600.0),
    ErrorClass.WAITING: (0.5, 30.0),
    ErrorClass.BLOCKED: (5.0, 300.0),
    ErrorClass.CONFLICT: (1.0, 60.0),
    ErrorClass.GONE: (0.05, 5.0),
    ErrorClass.STALE: (0.05, 5.0),
    ErrorClass.RETRY: (0.25, 60.0),
    ErrorClass.UNREACHABLE: (0.5, 30.0),
    ErrorClass.FORBIDDEN: (15.0, 300.0),
    ErrorClass.UNAUTHORIZED: (5.0, 120.0),
    ErrorClass.EXPIRED: (0.05, 10.0),
}


def backoff(cls: ErrorClass, attempt: int, rng: random.Random) -> float:
    """Seconds to wait after failed attempt number `attempt` (from 1): doubling, capped, with half of it random, so that
    many objects (or many daemons) that failed together do not come back together."""
    first, longest = _BACKOFF[cls]
    delay = min(longest, first * 2.0 ** min(max(attempt, 1) - 1, 30))
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


def _classify_plain(status: int, body: bytes) -> ApiError:
    """An answer that is no Status: a proxy's page, or the API server's own 404 for a path that it does not serve."""
    if status == 404:
        # kube-apiserver answers `404 page not found` for a group, version or resource that is not served.
        return ApiError(
            ErrorClass.WAITING, status, "NotServed", "the cluster does not serve this kind", waits_for="kind"
        )
    if status in (301, 302, 303, 307, 308):
        return ApiError(ErrorClass.UNREACHABLE, status, "Redirected", "the address redirects: not a Kubernetes API")
    return ApiError(_by_code(status), status, message=f"HTTP {status} without a Kubernetes status")


def _classify_status(document: Mapping[str, Any], status: int, *, resource: str, applying: bool) -> ApiError:
    reason = _text(document.get("reason"))
    message = _text(document.get("message"))
    details = document.get("details")
    details = details if isinstance(details, dict) else {}
    causes = tuple(_causes(details))
    pause = details.get("retryAfterSeconds")
    about = _text(details.get("kind"))
    error = ApiError(
        cls=_by_code(status),
        status=status,
        reason=reason,
        message=cut(_without_values(message, about)),
        causes=tuple(replace(c, message=cut(_without_values(c.message, about))) for c in causes[:_CAUSE_LIMIT]),
        retry_after=float(pause) if isinstance(pause, int) and pause > 0 else None,
    )
    for pattern, cls, own_reason, waits_for in _BY_MESSAGE:
        match = pattern.search(message)
        if match:
            return replace(
                error, cls=cls, reason=own_reason or reason, waits_for=match.expand(waits_for) if waits_for else ""
            )
    if status == 404:
        return _not_found(error, about, _text(details.get("name")), resource=resource, applying=applying)
    if status == 409:
        conflict = any(cause.reason == "FieldManagerConflict" for cause in causes)
        return replace(error, cls=ErrorClass.CONFLICT if conflict else ErrorClass.STALE)
    if status == 403:
        terminating = any(cause.reason == "NamespaceTerminating" for cause in causes)
        if terminating:
            return replace(error, cls=ErrorClass.WAITING, waits_for="end of the namespace's deletion")
        # In-tree admission (LimitRanger, PodSecurity, …) says "X is forbidden: why"; authorization names the user.
        admission = " is forbidden: " in message and not _USER_CANNOT.search(message)
        return replace(error, cls=ErrorClass.DENIED if admission else ErrorClass.FORBIDDEN)
    if status == 422:
        return replace(error, cls=_invalid(message, causes))
    return error


def _not_found(error: ApiError, about: str, name: str, *, resource: str, applying: bool) -> ApiError:
    if about == "namespaces" and (applying or resource != "namespaces"):
        return replace(error, cls=ErrorClass.WAITING, waits_for=f"namespace {name}")
    if not about and not name:
        return replace(error, cls=ErrorClass.WAITING, reason="NotServed", waits_for="kind")
    if applying:
        # An apply creates what is missing, so this is about something the object names: for a binding it is the role
        # (the server says `rolebindings "<role>" not found` to a caller without the right to bind).
        wanted = "role" if about in ("rolebindings", "clusterrolebindings") else about or "object"
        return replace(error, cls=ErrorClass.WAITING, waits_for=f"{wanted} {name}".strip())
    return replace(error, cls=ErrorClass.GONE)


def _invalid(message: str, causes: tuple[Cause, ...]) -> ErrorClass:
    if not causes:
        # A `test` of a JSON patch that fails: 422 Invalid without causes.
        return ErrorClass.STALE
    if all(cause.field == "metadata.uid" for cause in causes):
        return ErrorClass.STALE  # the payload's uid is that of an earlier object of this name
    if any(cause.reason == "FieldValueDuplicate" for cause in causes) or "port is already allocated" in message:
        # Our own payload cannot hold duplicates (an apply refuses them with 500), so they come from live items.
        return ErrorClass.BLOCKED
    return ErrorClass.REFUSED


def _by_code(status: int) -> ErrorClass:
    if status == 401:
        return ErrorClass.UNAUTHORIZED
    if status == 403:
        return ErrorClass.FORBIDDEN
    if status == 404:
        return ErrorClass.GONE
    if status == 409:
        return ErrorClass.STALE
    if status == 410:
        return ErrorClass.EXPIRED
    if status in (408, 429) or status >= 500:
        return ErrorClass.RETRY
    return ErrorClass.REFUSED


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


_USER_CANNOT = re.compile(r"User \".*\" cannot ")

_BY_MESSAGE: tuple[tuple[re.Pattern[str], ErrorClass, str, str], ...] = tuple(
    (re.compile(pattern, re.DOTALL), cls, reason, waits_for)
    for pattern, cls, reason, waits_for in (
        # Webhooks and policies: whatever the HTTP code is.
        (r'^admission webhook ".*?" denied the request', ErrorClass.DENIED, "WebhookDenied", ""),
        (r"admission webhook \".*?\" does not support dry run", ErrorClass.REFUSED, DRY_RUN_UNSUPPORTED, ""),
        (
            r"ValidatingAdmissionPolicy '.*?' with binding '.*?' denied request: .*no params found",
            ErrorClass.WAITING,
            "",
            "parameters of an admission policy",
        ),
        (r"no params found for policy binding", ErrorClass.WAITING, "", "parameters of an admission policy"),
        (r"ValidatingAdmissionPolicy '.*?' with binding '.*?' denied request", ErrorClass.DENIED, "PolicyDenied", ""),
        (r"violates PodSecurity", ErrorClass.DENIED, "PodSecurity", ""),
        (r"failed calling webhook", ErrorClass.RETRY, "WebhookUnreachable", ""),
        (r"conversion webhook for .* failed", ErrorClass.RETRY, "ConversionFailed", ""),
        (r"storage is \(re\)initializing", ErrorClass.RETRY, STORAGE_STARTING, ""),
        # Permanent although they arrive as 500.
        (r"failed to create typed patch object", ErrorClass.REFUSED, SCHEMA_MISMATCH, ""),
        (r"failed to create manager for existing fields", ErrorClass.BLOCKED, LIVE_SCHEMA_MISMATCH, ""),
        # Some entry of managedFields is at a version that the definition has no more.
        (r"request to convert CR to an invalid group/version", ErrorClass.BLOCKED, VERSION_GONE, ""),
        (r"request is too large|Request entity too large", ErrorClass.REFUSED, "TooLarge", ""),
        (r"rpc error.*ResourceExhausted", ErrorClass.REFUSED, "TooLarge", ""),
        # The live object does not fit its own schema (equal owner references, …): kubernetes/kubernetes#123053.
        (r"failed to create typed live object", ErrorClass.BLOCKED, LIVE_SCHEMA_MISMATCH, ""),
        # What an object needs and does not have yet.
        (
            r"unable to create new content in namespace (\S+) because it is being terminated",
            ErrorClass.WAITING,
            "",
            r"end of the deletion of namespace \1",
        ),
        (r"custom resource definition is terminating", ErrorClass.WAITING, "", "end of the deletion of the CRD"),
        (r"error looking up service account ([^\s:]+)", ErrorClass.WAITING, "", r"service account \1"),
        (r"no PriorityClass with name (\S+) was found", ErrorClass.WAITING, "", r"priority class \1"),
        (r'RuntimeClass "([^"]*)" not found', ErrorClass.WAITING, "", r"runtime class \1"),
        (r"exceeded quota: ([^,\s]+)", ErrorClass.WAITING, "QuotaExceeded", r"quota \1"),
        (r"status unknown for quota: ([^,\s]+)", ErrorClass.WAITING, "QuotaExceeded", r"quota \1"),
        # Rights.
        (r"attempting to grant RBAC permissions not currently held", ErrorClass.FORBIDDEN, "Escalation", ""),
    )
)
