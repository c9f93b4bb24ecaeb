"""Error classes by table: texts are those of a live 1.34 API server."""

import random
from typing import Any

import msgspec
import pytest

from gitops.cluster.errors import (
    MESSAGE_LIMIT,
    SCHEMA_MISMATCH,
    ApiError,
    Cause,
    ErrorClass,
    FieldConflict,
    backoff,
    classify,
    classify_status,
)


def status(code: int, message: str, *, reason: str = "", **details: Any) -> bytes:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "code": code}
    return msgspec.json.encode(
        body | ({"reason": reason} if reason else {}) | ({"details": details} if details else {})
    )


def cause(reason: str, field: str = "", message: str = "") -> dict[str, str]:
    return {"reason": reason, "field": field, "message": message}


DENIED = 'admission webhook "vdgd.nvidia.com" denied the request: spec.services must not be empty'
POLICY = "widgets.x \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
PARAMS = (
    "widgets.x \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "
    "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
)
TYPED = "failed to create typed patch object (ns/a; x/v1, Kind=Widget): .spec.foo: field not declared in schema"


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        *[
            pytest.param(code, DENIED, ErrorClass.DENIED, id=f"webhook-{code}")
            for code in (403, 404, 409, 410, 429, 503)
        ],
        pytest.param(422, POLICY, ErrorClass.DENIED, id="policy-422"),
        pytest.param(403, POLICY, ErrorClass.DENIED, id="policy-403"),
        pytest.param(422, PARAMS, ErrorClass.WAITING, id="policy-without-params"),
        pytest.param(
            403,
            'pods "a" is forbidden: violates PodSecurity "restricted:latest": privileged (…)',
            ErrorClass.DENIED,
            id="podsecurity",
        ),
        pytest.param(
            403,
            'pods "a" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
            ErrorClass.DENIED,
            id="limit-range",
        ),
        pytest.param(
            500,
            'Internal error occurred: failed calling webhook "w": failed to call webhook: Post "https://x": dial tcp',
            ErrorClass.RETRY,
            id="o05-webhook-unreachable",
        ),
        pytest.param(
            500,
            "conversion webhook for nvidia.com/v1beta1, Kind=DynamoGraphDeployment failed: Post …: refused",
            ErrorClass.RETRY,
            id="conversion-webhook",
        ),
        pytest.param(500, TYPED, ErrorClass.REFUSED, id="schema-of-apply"),
        pytest.param(
            500, "failed to create manager for existing fields: failed to convert", ErrorClass.BLOCKED, id="live-schema"
        ),
        pytest.param(500, "etcdserver: request is too large", ErrorClass.REFUSED, id="too-large"),
        pytest.param(
            500,
            "rpc error: code = ResourceExhausted desc = trying to send message larger than max",
            ErrorClass.REFUSED,
            id="rpc-too-large",
        ),
        pytest.param(500, "something else broke", ErrorClass.RETRY, id="other-500"),
        pytest.param(503, "the server is currently unable to handle the request", ErrorClass.RETRY, id="503"),
        pytest.param(
            403,
            'namespaces "a" is forbidden: User "system:serviceaccount:x:y" cannot patch resource "namespaces"',
            ErrorClass.FORBIDDEN,
            id="rbac",
        ),
        pytest.param(
            403,
            'roles.rbac.authorization.k8s.io "r" is forbidden: user "u" (groups=["g"]) is attempting to grant RBAC '
            'permissions not currently held:\n{APIGroups:[""], …}',
            ErrorClass.FORBIDDEN,
            id="escalation",
        ),
        pytest.param(401, "Unauthorized", ErrorClass.UNAUTHORIZED, id="401"),
        pytest.param(410, "The provided continue parameter is too old", ErrorClass.EXPIRED, id="410"),
        pytest.param(429, "too many requests, please try again later", ErrorClass.RETRY, id="429"),
        pytest.param(400, "managedFields must be nil", ErrorClass.REFUSED, id="400"),
    ],
)
def test_23_24_class_by_message(code: int, message: str, expected: ErrorClass) -> None:
    error = classify(code, {}, status(code, message), resource="widgets", applying=True)
    assert error.cls is expected
    assert error.status == code


@pytest.mark.parametrize(
    ("message", "waits_for"),
    [
        (
            'pods "p" is forbidden: error looking up service account ns/sa: serviceaccount "sa" not found',
            "service account ns/sa",
        ),
        ('pods "p" is forbidden: no PriorityClass with name urgent was found', "priority class urgent"),
        ('pods "p" is forbidden: pod rejected: RuntimeClass "nvidia" not found', "runtime class nvidia"),
        ('pods "p" is forbidden: exceeded quota: gpus, requested: x=1, used: x=8, limited: x=8', "quota gpus"),
        (
            'configmaps "c" is forbidden: unable to create new content in namespace old because it is being terminated',
            "end of the deletion of namespace old",
        ),
    ],
)
def test_20_what_a_403_waits_for(message: str, waits_for: str) -> None:
    error = classify(403, {}, status(403, message, reason="Forbidden"), applying=True)
    assert (error.cls, error.waits_for) == (ErrorClass.WAITING, waits_for)


@pytest.mark.parametrize(
    ("kind", "name", "resource", "applying", "cls", "waits_for"),
    [
        ("namespaces", "demo", "configmaps", True, ErrorClass.WAITING, "namespace demo"),
        ("namespaces", "demo", "namespaces", False, ErrorClass.GONE, ""),
        ("configmaps", "c", "configmaps", False, ErrorClass.GONE, ""),
        ("rolebindings", "reader", "rolebindings", True, ErrorClass.WAITING, "role reader"),
        ("", "", "configmaps", False, ErrorClass.WAITING, "kind"),
    ],
)
def test_20_a_404_is_about_many_things(
    kind: str, name: str, resource: str, applying: bool, cls: ErrorClass, waits_for: str
) -> None:
    body = status(404, "not found", reason="NotFound", **({"kind": kind, "name": name} if kind else {}))
    error = classify(404, {}, body, resource=resource, applying=applying)
    assert (error.cls, error.waits_for) == (cls, waits_for)


def test_20_a_path_that_is_not_served() -> None:
    error = classify(404, {"Content-Type": "text/plain"}, b"404 page not found\n", applying=True)
    assert (error.cls, error.waits_for) == (ErrorClass.WAITING, "kind")


def test_30_conflicts_and_their_managers() -> None:
    causes = [
        cause("FieldManagerConflict", ".spec.replicas", 'conflict with "hpa" with subresource "scale" using apps/v1'),
        cause("FieldManagerConflict", ".metadata.labels.gitops/reconciler", 'conflict with "other"'),
        cause("FieldManagerConflict", ".spec.x", 'conflict with "kubectl edit" using v1'),
    ]
    error = classify(409, {}, status(409, "Apply failed with 3 conflicts", reason="Conflict", causes=causes))
    assert error.cls is ErrorClass.CONFLICT
    assert error.conflicts == (
        FieldConflict("hpa", ".spec.replicas", "scale"),
        FieldConflict("other", ".metadata.labels.gitops/reconciler"),
        FieldConflict("kubectl edit", ".spec.x"),
    )


@pytest.mark.parametrize(
    ("causes", "expected"),
    [
        ([], ErrorClass.STALE),  # a JSON patch `test`
        ([cause("FieldValueInvalid", "metadata.uid", "field is immutable")], ErrorClass.STALE),
        ([cause("FieldValueDuplicate", "spec.ports[1].name")], ErrorClass.BLOCKED),
        ([cause("FieldValueInvalid", "spec.selector", "field is immutable")], ErrorClass.REFUSED),
        ([cause("FieldValueForbidden", "spec", "updates are forbidden")], ErrorClass.REFUSED),
        ([cause("FieldValueRequired", "spec.conversion.strategy")], ErrorClass.REFUSED),
    ],
)
def test_14_25_28_31_what_a_422_means(causes: list[dict[str, str]], expected: ErrorClass) -> None:
    details = {"causes": causes} if causes else {}
    error = classify(422, {}, status(422, "x is invalid", reason="Invalid", **details))
    assert error.cls is expected
    assert error.causes == tuple(Cause(c["reason"], c["field"], c["message"]) for c in causes)


def test_409_without_causes_is_a_precondition() -> None:
    body = status(409, "Precondition failed: UID in precondition: a, UID in object meta: b", reason="Conflict")
    assert classify(409, {}, body).cls is ErrorClass.STALE


def test_s17_dry_run_unsupported_is_told_apart() -> None:
    message = 'admission webhook "w" does not support dry run'
    error = classify(400, {}, status(400, message, reason="BadRequest"))
    assert error.dry_run_unsupported
    assert not classify(400, {}, status(400, "bad", reason="BadRequest")).dry_run_unsupported


@pytest.mark.parametrize(
    ("headers", "details", "expected"),
    [
        ({"Retry-After": "7"}, {}, 7.0),
        ({}, {"retryAfterSeconds": 3}, 3.0),
        ({}, {}, None),
        ({"Retry-After": "?"}, {}, None),
    ],
)
def test_a04_the_servers_pause(headers: dict[str, str], details: dict[str, Any], expected: float | None) -> None:
    error = classify(429, headers, status(429, "later", reason="TooManyRequests", **details))
    assert error.retry_after == expected
    assert error.wait(1, random.Random(1)) >= (expected or 0)


def test_i5_messages_are_cut_and_hold_no_secret_values() -> None:
    long = classify(422, {}, status(422, "x" * 5000, causes=[cause("FieldValueInvalid", "a", "y" * 5000)]))
    assert len(long.message) == len(long.causes[0].message) == MESSAGE_LIMIT
    secret = classify(
        422,
        {},
        status(
            422,
            'Secret "s" is invalid: data[k]: Invalid value: "hunter2": bad',
            kind="Secret",
            causes=[cause("FieldValueInvalid", "data[k]", 'Invalid value: "hunter2": bad')],
        ),
    )
    assert "hunter2" not in str(secret) + str(secret.causes)
    typed = (
        "failed to create typed patch object (ns/s; /v1, Kind=Secret): .data.k: expected string, got "
        "&value.valueUnstructured{Value:4711}"
    )
    assert "4711" not in str(classify(500, {}, status(500, typed)))


@pytest.mark.parametrize("body", [b"<html>secret token abc</html>", b"", b"\xff\xfe", b"[1]", b'{"token": "abc"}'])
def test_i5_a_body_that_is_no_status_is_not_quoted(body: bytes) -> None:
    error = classify(502, {}, body)
    assert error.cls is ErrorClass.RETRY
    assert "abc" not in str(error)


def test_a01_an_error_event_of_a_watch() -> None:
    document = msgspec.json.decode(status(410, "too old resource version: 1 (2)", reason="Expired"))
    assert classify_status(document).cls is ErrorClass.EXPIRED


def test_redirects_are_no_kubernetes_api() -> None:
    assert classify(302, {"Location": "https://login"}, b"").cls is ErrorClass.UNREACHABLE


@pytest.mark.parametrize("cls", list(ErrorClass))
def test_backoff_grows_jitters_and_is_capped(cls: ErrorClass) -> None:
    rng = random.Random(0)
    first = [backoff(cls, 1, rng) for _ in range(50)]
    late = [backoff(cls, 60, rng) for _ in range(50)]
    assert len(set(first)) > 40
    assert max(first) <= min(late) * 2
    assert max(late) <= 3600
    assert min(first) > 0
    assert backoff(cls, 10**9, rng) <= 3600  # no overflow


def test_an_error_reads_as_a_sentence() -> None:
    assert str(ApiError(ErrorClass.WAITING, 404, message="not found", waits_for="namespace x")) == (
        "waiting for namespace x: not found"
    )
    assert str(ApiError(ErrorClass.RETRY, 503)) == "retry: HTTP 503"


def test_24_a_schema_refusal_is_looked_at_again_soon_and_then_is_one_like_any_other() -> None:
    schema = ApiError(ErrorClass.REFUSED, 500, SCHEMA_MISMATCH, "field not declared in schema")
    rng = random.Random(0)
    assert [schema.wait(attempt, rng) < 1 for attempt in (1, 2, 3)] == [True, True, False]
    assert ApiError(ErrorClass.REFUSED, 422, "Invalid", "no").wait(1, rng) >= 30
