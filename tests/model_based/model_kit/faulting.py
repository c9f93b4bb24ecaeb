"""What the proxy between a daemon and its cluster may be told, by the words of a story."""

from __future__ import annotations

from controlplane_kit import faults
from controlplane_kit.faultproxy import FaultProxy
from controlplane_kit.faults import (
    Answer,
    Cut,
    CutAfter,
    Delay,
    DelayAnswer,
    FreezeAfter,
    LoseAnswer,
    Request,
    WatchError,
)

METHODS = ("any", "patch", "delete", "post", "get")

CALLS: dict[str, faults.Action] = {
    "409": Answer(409, "Conflict", "the object has been modified"),
    "429": Answer(429, "TooManyRequests", "slow down", retry_after=1),
    "500": Answer(500, "InternalError", "internal error"),
    "503": Answer(503, "ServiceUnavailable", "the server is currently unable to handle the request"),
    "lost": LoseAnswer(),
    "cut": Cut(),
    "slow": Delay(0.02),
    "late": DelayAnswer(0.05),
    "hang": FreezeAfter(0),
}
"""Of single calls, but those about the Lease."""

LISTS: dict[str, faults.Action] = {"gone-lists": faults.GONE, "no-lists": Answer(404, "NotFound", "not found")}
WATCHES = ("gone-watches", "cut-watches", "frozen-watches")
OTHER = ("half-answers", "lease-lost", "lease-cut", "connections")
FAULTS = (*CALLS, *LISTS, *WATCHES, *OTHER)


def fault(proxy: FaultProxy, kind: str, method: str, times: int, size: int) -> str:
    """Tell the proxy to fail so for the next calls that it concerns; what it is now told, for people."""
    if kind in CALLS:
        proxy.fail(CALLS[kind], lambda r: _is_call(r) and method in ("any", r.method.lower()), times=times)
    elif kind in LISTS:
        proxy.fail(LISTS[kind], lambda r: r.method == "GET" and "limit" in r.query, times=times)
    elif kind == "half-answers":
        proxy.fail(CutAfter(size), lambda r: _is_call(r) and r.method == "GET", times=times)
    elif kind == "gone-watches":
        proxy.fail(WatchError(), faults.on(watch=True), times=times)
    elif kind == "cut-watches":
        proxy.fail(CutAfter(size), faults.on(watch=True), times=times)
    elif kind == "frozen-watches":
        proxy.fail(FreezeAfter(size), faults.on(watch=True), times=times)
    elif kind == "lease-lost":
        proxy.fail(LoseAnswer(), lambda r: r.is_lease, times=times)
    elif kind == "lease-cut":
        proxy.fail(Cut(), lambda r: r.is_lease, times=times)
    elif kind == "connections":
        proxy.cut()
    else:
        raise ValueError(f"no fault: {kind}")
    return f"{len(proxy.rules)} rules"


def _is_call(request: Request) -> bool:
    return not request.is_lease and not request.is_watch
