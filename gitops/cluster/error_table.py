"""The error taxonomy: what may arrive from an API server, what class it is, and what people are told about it.

One table. `errors.classify` takes the first row that fits, so webhooks and policies, which deny with any code, come
before rows that look at causes, and those before rows that know the code alone. docs/errors.md is made from it, and
tests/cluster/test_error_rows.py makes a real API server (or a proxy, for what no healthy one does) produce every row.

Texts differ between versions of Kubernetes; those here are of the version in SEEN_ON. A text that is no longer known
falls through to a row that goes by code, which retries or refuses but never takes an error for success or absence.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass

SEEN_ON = "1.34.3"
"""The Kubernetes version whose texts these are."""


class ErrorClass(enum.StrEnum):
    """What an error means for the object it is about."""

    DENIED = "denied"
    REFUSED = "refused"
    WAITING = "waiting"
    BLOCKED = "blocked"
    CONFLICT = "conflict"
    GONE = "gone"
    STALE = "stale"
    RETRY = "retry"
    UNREACHABLE = "unreachable"
    FORBIDDEN = "forbidden"
    UNAUTHORIZED = "unauthorized"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Treatment:
    """What a class means, and its pauses in seconds: the first, doubling until the longest."""

    meaning: str
    first: float
    longest: float


TREATMENTS: Mapping[ErrorClass, Treatment] = {
    ErrorClass.DENIED: Treatment("a webhook or an admission policy said no; it may say yes later", 10.0, 600.0),
    ErrorClass.REFUSED: Treatment("permanent until Git or the cluster's rules change", 60.0, 3600.0),
    ErrorClass.WAITING: Treatment("something else has to exist, or to go, first; it is named", 0.5, 30.0),
    ErrorClass.BLOCKED: Treatment("the live object, or a neighbour, stands in the way", 5.0, 300.0),
    ErrorClass.CONFLICT: Treatment("fields belong to other managers; they are named", 1.0, 60.0),
    ErrorClass.GONE: Treatment("the object does not exist", 0.05, 5.0),
    ErrorClass.STALE: Treatment("it is not what was read: it is read again", 0.05, 5.0),
    ErrorClass.RETRY: Treatment("passing, or throttled", 0.25, 60.0),
    ErrorClass.UNREACHABLE: Treatment("no answer, or none of a Kubernetes API", 0.5, 30.0),
    ErrorClass.FORBIDDEN: Treatment("our rights do not allow it", 15.0, 300.0),
    ErrorClass.UNAUTHORIZED: Treatment("our credentials are not accepted", 5.0, 120.0),
    ErrorClass.EXPIRED: Treatment("the version asked for is no longer kept: it is listed again", 0.05, 10.0),
}

SCHEMA_MISMATCH = "SchemaMismatch"
DRY_RUN_UNSUPPORTED = "DryRunUnsupported"
IMMUTABLE = "Immutable"
"""A field that can be set on create only is another. No proof that the new value is right: a typo in it gives the same
text (ssa-live 25)."""

DELETING = "Deleting"
"""Our reason where an apply was answered with an object that is on its way out."""
STORAGE_STARTING = "StorageStarting"
"""For some milliseconds after a definition changed. It comes as 429, but nobody is asked to spare the cluster."""
VERSION_GONE = "VersionGone"
LIVE_SCHEMA_MISMATCH = "LiveSchemaMismatch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What arrives (every condition given must hold), and what is made of it.

    `reason` replaces the server's. `waits_for` may use {0}, {1}, … (groups of `message`), {about} and {name} (kind and
    name of the Status' details). `soon` attempts are tried again as quickly as a passing error.
    """

    id: str
    cls: ErrorClass
    hint: str
    """What people are told beside the server's words; "" where nobody is told."""
    example: str
    """The server's words, shortened."""

    codes: tuple[int, ...] = ()  # HTTP codes; any when empty
    message: re.Pattern[str] | None = None
    cause: str = ""  # reason of at least one cause
    cause_message: re.Pattern[str] | None = None  # of at least one cause (with that reason)
    only_field: str = ""  # the field of every cause
    without_causes: bool = False
    about: tuple[str, ...] = ()  # kind in the Status' details
    nameless: bool = False  # the Status names no object
    elsewhere: bool | None = None  # is it about another object than the one asked for?
    applying: bool | None = None  # was it a server-side apply?
    plain: bool | None = None  # is the body something else than a Status?
    given: tuple[str, ...] = ()  # our reason for a call without answer, or for an answer that we judge ourselves

    reason: str = ""
    waits_for: str = ""
    soon: int = 0
    says: str = ""  # our words for an answer that is not quoted


def _text(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL)


ROWS: tuple[Row, ...] = (
    # -- no usable answer ----------------------------------------------------------------------------------------------
    Row(
        id="no-connection",
        given=("Broken", "Closed", "Unreachable"),
        cls=ErrorClass.UNREACHABLE,
        hint="the cluster, the network or the proxy before it is down",
        example="Cannot connect to host 127.0.0.1:6443 ssl:default [Connect call failed]",
    ),
    Row(
        id="timeout",
        given=("Timeout", "Silent"),
        cls=ErrorClass.UNREACHABLE,
        hint="the API server is overloaded, or the network loses packets",
        example="no answer in time",
    ),
    Row(
        id="tls",
        given=("Tls",),
        cls=ErrorClass.UNREACHABLE,
        hint="the certificate authority in the kubeconfig is not that of the API server, or a proxy ends TLS",
        example="certificate verify failed: unable to get local issuer certificate",
    ),
    Row(
        id="not-kubernetes",
        given=("NotJson", "LineTooLong", "EndedAtOnce"),
        cls=ErrorClass.UNREACHABLE,
        hint="something else than a Kubernetes API answers at this address",
        example="the answer is not JSON",
    ),
    Row(
        id="redirected",
        codes=(301, 302, 303, 307, 308),
        plain=True,
        cls=ErrorClass.UNREACHABLE,
        reason="Redirected",
        says="the address redirects",
        hint="something else than a Kubernetes API answers at this address, perhaps a login page",
        example="302 with Location: https://login.example",
    ),
    Row(
        id="credentials-unusable",
        given=("CredentialsUnusable", "NoCredentials"),
        cls=ErrorClass.UNAUTHORIZED,
        hint="correct the credentials of that name; they are read again when the file changes",
        example="kubeconfig cannot be used: the exec plugin ended with 1",
    ),
    # -- webhooks and policies: whatever the code is -------------------------------------------------------------------
    Row(
        id="webhook-denied",
        message=_text(r'^admission webhook ".*?" denied the request'),
        cls=ErrorClass.DENIED,
        reason="WebhookDenied",
        hint="change the object in Git, or ask who runs the webhook",
        example='admission webhook "vdgd.nvidia.com" denied the request: spec.services must not be empty',
    ),
    Row(
        id="webhook-no-dry-run",
        message=_text(r'admission webhook ".*?" does not support dry run'),
        cls=ErrorClass.REFUSED,
        reason=DRY_RUN_UNSUPPORTED,
        hint="it cannot be tried beforehand; the apply itself decides",
        example='admission webhook "audit.example" does not support dry run',
    ),
    Row(
        id="policy-without-parameters",
        message=_text(r"no params found for policy binding"),
        cls=ErrorClass.WAITING,
        waits_for="parameters of an admission policy",
        hint="create the object that the policy's binding names",
        example="ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: no params"
        " found for policy binding with `Deny` parameterNotFoundAction",
    ),
    Row(
        id="policy-denied",
        message=_text(r"ValidatingAdmissionPolicy '.*?' with binding '.*?' denied request"),
        cls=ErrorClass.DENIED,
        reason="PolicyDenied",
        hint="change the object in Git, or ask who keeps the policy",
        example="ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed expression: …",
    ),
    Row(
        id="pod-security",
        message=_text(r"violates PodSecurity"),
        cls=ErrorClass.DENIED,
        reason="PodSecurity",
        hint="correct the pod's securityContext, or the labels of the namespace",
        example='pods "p" is forbidden: violates PodSecurity "restricted:latest": privileged (…)',
    ),
    Row(
        id="webhook-unreachable",
        message=_text(r"failed calling webhook"),
        cls=ErrorClass.RETRY,
        reason="WebhookUnreachable",
        hint="the webhook's server does not answer; its operator may be restarting",
        example='Internal error occurred: failed calling webhook "w": … connection refused',
    ),
    Row(
        id="conversion-webhook",
        message=_text(r"conversion webhook for .* failed"),
        cls=ErrorClass.RETRY,
        reason="ConversionFailed",
        hint="the conversion webhook does not answer; its operator may be restarting",
        example="conversion webhook for nvidia.com/v1alpha1, Kind=DynamoGraphDeployment failed: Post …: refused",
    ),
    Row(
        id="storage-starting",
        message=_text(r"storage is \(re\)initializing"),
        cls=ErrorClass.RETRY,
        reason=STORAGE_STARTING,
        hint="",
        example="429: storage is (re)initializing, for some milliseconds after a definition changed",
    ),
    # -- permanent although they arrive as 500 -------------------------------------------------------------------------
    Row(
        id="schema-mismatch",
        message=_text(r"failed to create typed patch object"),
        cls=ErrorClass.REFUSED,
        reason=SCHEMA_MISMATCH,
        soon=2,
        hint="correct it in Git, or install the operator version whose definition knows it",
        example="failed to create typed patch object (…): .spec.foo: field not declared in schema",
    ),
    Row(
        id="live-manager",
        message=_text(r"failed to create manager for existing fields"),
        cls=ErrorClass.BLOCKED,
        reason=LIVE_SCHEMA_MISMATCH,
        hint="the live object does not fit its changed definition: correct its field by a merge patch",
        example="failed to create manager for existing fields: failed to convert new object …: .spec.size: expected"
        " numeric (int or float), got string",
    ),
    Row(
        id="live-object",
        # Of a changed type; and, on older versions, of equal owner references (kubernetes/kubernetes#123053).
        message=_text(r"failed to create typed live object"),
        cls=ErrorClass.BLOCKED,
        reason=LIVE_SCHEMA_MISMATCH,
        hint="the live object does not fit its own schema: correct it by a merge patch",
        example="failed to create typed live object (…): .spec.size: expected numeric (int or float), got string",
    ),
    Row(
        id="version-gone",
        message=_text(r"request to convert CR to an invalid group/version"),
        cls=ErrorClass.BLOCKED,
        reason=VERSION_GONE,
        hint="an entry of its managedFields is at a version that the definition has no more",
        example="request to convert CR to an invalid group/version: test.example/v1",
    ),
    Row(
        id="too-large",
        message=_text(r"request is too large|Request entity too large|rpc error.*ResourceExhausted"),
        cls=ErrorClass.REFUSED,
        reason="TooLarge",
        hint="split it: an object may have about 1.5 MB",
        example="etcdserver: request is too large",
    ),
    # -- what has to exist, or to go, first ----------------------------------------------------------------------------
    Row(
        id="namespace-terminating",
        message=_text(r"unable to create new content in namespace (\S+) because it is being terminated"),
        cls=ErrorClass.WAITING,
        waits_for="end of the deletion of namespace {0}",
        hint="",
        example='configmaps "c" is forbidden: unable to create new content in namespace old because it is being'
        " terminated",
    ),
    Row(
        id="definition-terminating",
        message=_text(r"custom resource definition is terminating"),
        cls=ErrorClass.WAITING,
        waits_for="end of the deletion of the CRD",
        hint="",
        example="create not allowed while custom resource definition is terminating",
    ),
    Row(
        id="object-deleting",
        given=(DELETING,),
        cls=ErrorClass.WAITING,
        hint="a finalizer may hold it: see metadata.finalizers of the live object",
        example="200 with a deletionTimestamp: apps/Deployment ns/web is being deleted",
    ),
    Row(
        id="service-account-missing",
        message=_text(r"error looking up service account ([^\s:]+)"),
        cls=ErrorClass.WAITING,
        waits_for="service account {0}",
        hint="",
        example='pods "p" is forbidden: error looking up service account ns/sa: serviceaccount "sa" not found',
    ),
    Row(
        id="priority-class-missing",
        message=_text(r"no PriorityClass with name (\S+) was found"),
        cls=ErrorClass.WAITING,
        waits_for="priority class {0}",
        hint="",
        example='pods "p" is forbidden: no PriorityClass with name urgent was found',
    ),
    Row(
        id="runtime-class-missing",
        message=_text(r'RuntimeClass "([^"]*)" not found'),
        cls=ErrorClass.WAITING,
        waits_for="runtime class {0}",
        hint="",
        example='pods "p" is forbidden: pod rejected: RuntimeClass "nvidia" not found',
    ),
    Row(
        id="quota-exceeded",
        message=_text(r"exceeded quota: ([^,\s]+)"),
        cls=ErrorClass.WAITING,
        reason="QuotaExceeded",
        waits_for="quota {0}",
        hint="raise the quota, or remove something",
        example='secrets "s" is forbidden: exceeded quota: few, requested: count/secrets=1, used: …, limited: …',
    ),
    Row(
        id="quota-unknown",
        message=_text(r"status unknown for quota: ([^,\s]+)"),
        cls=ErrorClass.WAITING,
        reason="QuotaExceeded",
        waits_for="quota {0}",
        hint="",
        example='secrets "s" is forbidden: status unknown for quota: few, resources: count/secrets',
    ),
    Row(
        id="kind-not-served",
        codes=(404,),
        plain=True,
        cls=ErrorClass.WAITING,
        reason="NotServed",
        says="the cluster does not serve this kind",
        waits_for="kind",
        hint="the operator that brings this kind, or this version of it, is not installed",
        example="404 page not found",
    ),
    Row(
        id="kind-not-found",
        given=("NotServed",),
        cls=ErrorClass.WAITING,
        hint="the operator that brings this kind, or this version of it, is not installed",
        example="the cluster does not serve this kind",
    ),
    Row(
        id="kind-not-stored",
        given=("NotStored",),
        cls=ErrorClass.REFUSED,
        hint="take it out of Git: there would be nothing to compare, repair or delete",
        example="the cluster answers authorization.k8s.io/v1 SubjectAccessReview and keeps nothing of it",
    ),
    Row(
        id="discovery-failed",
        given=("DiscoveryFailed",),
        cls=ErrorClass.RETRY,
        hint="an aggregated API does not answer: see its APIService",
        example="the cluster cannot say what metrics.example/v1 serves",
    ),
    Row(
        id="namespace-missing",
        codes=(404,),
        about=("namespaces",),
        elsewhere=True,
        cls=ErrorClass.WAITING,
        waits_for="namespace {name}",
        hint="",
        example='namespaces "team" not found',
    ),
    Row(
        id="role-missing",
        codes=(404,),
        about=("rolebindings", "clusterrolebindings"),
        elsewhere=True,
        cls=ErrorClass.WAITING,
        waits_for="role {name}",
        hint="",
        example='rolebindings.rbac.authorization.k8s.io "reader" not found (the name is the ROLE\'s)',
    ),
    # -- rights --------------------------------------------------------------------------------------------------------
    Row(
        id="escalation",
        message=_text(r"attempting to grant RBAC permissions not currently held"),
        cls=ErrorClass.FORBIDDEN,
        reason="Escalation",
        hint="the daemon may only give rights that it has, or needs `escalate` (roles) and `bind` (bindings)",
        example='roles "r" is forbidden: user "u" is attempting to grant RBAC permissions not currently held: …',
    ),
    Row(
        id="rbac",
        codes=(403,),
        message=_text(r'User ".*" cannot '),
        cls=ErrorClass.FORBIDDEN,
        hint="`gitops rbac roles CLUSTER` prints the rights that are needed",
        example='configmaps "c" is forbidden: User "u" cannot patch resource "configmaps" in API group "" …',
    ),
    Row(
        id="admission-denied",
        codes=(403,),
        message=_text(r" is forbidden: "),
        cls=ErrorClass.DENIED,
        hint="a rule of the cluster (a LimitRange, …) forbids it: change the object in Git, or the rule",
        example='pods "p" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
    ),
    Row(
        id="forbidden",
        codes=(403,),
        cls=ErrorClass.FORBIDDEN,
        hint="something before the API server may forbid it",
        example="HTTP 403 without a Kubernetes status",
    ),
    Row(
        id="unauthorized",
        codes=(401,),
        cls=ErrorClass.UNAUTHORIZED,
        hint="renew the credentials of that name; they are read again when the file changes",
        example="Unauthorized",
    ),
    # -- ownership and preconditions -----------------------------------------------------------------------------------
    Row(
        id="conflict",
        codes=(409,),
        cause="FieldManagerConflict",
        cls=ErrorClass.CONFLICT,
        hint="another manager owns the field",
        example='Apply failed with 1 conflict: conflict with "scaler" with subresource "scale": .spec.replicas',
    ),
    Row(
        id="precondition",
        codes=(409,),
        cls=ErrorClass.STALE,
        hint="",
        example='Operation cannot be fulfilled on configmaps "c": the object has been modified',
    ),
    Row(
        id="uid-mismatch",
        codes=(422,),
        only_field="metadata.uid",
        cls=ErrorClass.STALE,
        hint="",
        example='ConfigMap "c" is invalid: metadata.uid: Invalid value: "…": field is immutable',
    ),
    Row(
        id="patch-test-failed",
        codes=(422,),
        without_causes=True,
        applying=False,
        cls=ErrorClass.STALE,
        hint="",
        example="the server rejected our request due to an error in our request (a `test` of a JSON patch)",
    ),
    # -- live state in the way -----------------------------------------------------------------------------------------
    Row(
        id="live-duplicate",
        # Our own payload cannot hold duplicates (an apply refuses them with 500), so they come from live items.
        codes=(422,),
        cause="FieldValueDuplicate",
        cls=ErrorClass.BLOCKED,
        hint="an item of another manager has the same name: remove it from the live object",
        example='Service "s" is invalid: spec.ports[1].name: Duplicate value: "http"',
    ),
    Row(
        id="port-allocated",
        codes=(422,),
        message=_text(r"port is already allocated"),
        cls=ErrorClass.BLOCKED,
        hint="another Service has this node port",
        example='Service "s" is invalid: spec.ports[0].nodePort: Invalid value: …: provided port is already allocated',
    ),
    # -- refused -------------------------------------------------------------------------------------------------------
    Row(
        id="immutable-field",
        codes=(422,),
        cause="FieldValueInvalid",
        cause_message=_text(r"field is immutable|cannot change roleRef"),
        cls=ErrorClass.REFUSED,
        reason=IMMUTABLE,
        hint="this field can only be set when the object is created: undo the change, or have the object recreated",
        example='Deployment.apps "d" is invalid: spec.selector: Invalid value: …: field is immutable',
    ),
    Row(
        id="immutable-object",
        codes=(422,),
        cause="FieldValueForbidden",
        cause_message=_text(
            r"updates to statefulset spec for fields other than|is immutable after creation"
            r"|field is immutable when `immutable` is set|updates to parameters are forbidden"
            r"|updates to provisioner are forbidden|may not be changed in an update|may not change fields other than"
        ),
        cls=ErrorClass.REFUSED,
        reason=IMMUTABLE,
        hint="this field can only be set when the object is created: undo the change, or have the object recreated",
        example='StatefulSet.apps "s" is invalid: spec: Forbidden: updates to statefulset spec for fields other than …',
    ),
    Row(
        id="invalid",
        codes=(422,),
        cls=ErrorClass.REFUSED,
        hint="correct it in Git",
        example='Service "s" is invalid: spec.ports: Required value',
    ),
    # -- by code alone -------------------------------------------------------------------------------------------------
    Row(
        id="path-not-found",
        codes=(404,),
        nameless=True,
        cls=ErrorClass.WAITING,
        reason="NotServed",
        waits_for="kind",
        hint="the operator that brings this kind, or this version of it, is not installed",
        example="the server could not find the requested resource",
    ),
    Row(
        id="neighbour-missing",
        # An apply creates what is missing, so its 404 is about something the object names.
        codes=(404,),
        elsewhere=True,
        cls=ErrorClass.WAITING,
        waits_for="{about} {name}",
        hint="",
        example='an aggregated API: services "backend" not found',
    ),
    Row(
        id="object-gone",
        codes=(404,),
        cls=ErrorClass.GONE,
        hint="",
        example='configmaps "c" not found',
    ),
    Row(
        id="expired",
        codes=(410,),
        cls=ErrorClass.EXPIRED,
        hint="",
        example="too old resource version: 1 (2)",
    ),
    Row(
        id="throttled",
        codes=(429,),
        cls=ErrorClass.RETRY,
        hint="the API server asks for fewer calls; its pause is kept for the whole cluster",
        example="too many requests, please try again later (Retry-After: 1)",
    ),
    Row(
        id="server-error",
        codes=(408, *range(500, 600)),
        cls=ErrorClass.RETRY,
        hint="",
        example="the server is currently unable to handle the request",
    ),
    Row(
        id="bad-request",
        cls=ErrorClass.REFUSED,
        hint="correct it in Git",
        example="metadata.managedFields must be nil",
    ),
)

BY_ID: Mapping[str, Row] = {row.id: row for row in ROWS}
BY_GIVEN: Mapping[str, Row] = {reason: row for row in ROWS for reason in row.given}
