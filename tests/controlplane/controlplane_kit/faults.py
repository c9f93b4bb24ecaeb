"""What a fault proxy writes down and what it can be told to do: plain data, carried out by faultproxy.py."""

import random
import re
import threading
import urllib.parse
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Request:
    """One request as it came in. `status` is 0 until an answer began, and stays 0 when none ever did."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes
    began: float
    """time.monotonic()"""
    status: int = 0
    ended: float | None = None
    frozen: bool = False
    """Whether its answer fell silent (FreezeAfter); it then lasts until its client gives up."""

    @property
    def is_watch(self) -> bool:
        """A long-running watch."""
        return self.query.get("watch", "") in {"1", "true", "True"}

    @property
    def is_lease(self) -> bool:
        """Of a Lease."""
        return "/apis/coordination.k8s.io/" in self.path

    @property
    def is_dry_run(self) -> bool:
        """Changes nothing whatever the method."""
        return "dryRun" in self.query

    @property
    def is_write(self) -> bool:
        """Changes something when it succeeds."""
        return self.method not in {"GET", "HEAD"} and not self.is_dry_run

    def __str__(self) -> str:
        query = f"?{urllib.parse.urlencode(self.query)}" if self.query else ""
        return f"{self.method} {self.path}{query} → {self.status or 'no answer'}"

    __repr__ = __str__


Match = Callable[[Request], bool]


def on(method: str | None = None, path: str = "", *, watch: bool | None = None, **query: str) -> Match:
    """Match requests by method, a regular expression found in the path, and query parameters; None means any."""
    pattern = re.compile(path)

    def matches(request: Request) -> bool:
        return (
            (method is None or request.method == method)
            and pattern.search(request.path) is not None
            and (watch is None or request.is_watch == watch)
            and all(request.query.get(name) == value for name, value in query.items())
        )

    return matches


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer with a Kubernetes Status of this code instead of asking the API server; `retry_after` in seconds."""

    code: int
    reason: str = ""
    message: str = "told to fail by the fault proxy"
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """Forward after so many seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class DelayAnswer:
    """Forward, let the API server do it, and answer after so many seconds: watches tell of it first."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Cut:
    """Reset the connection; the API server never hears of the request."""


@dataclass(frozen=True, slots=True)
class LoseAnswer:
    """Forward, let the API server do it, then reset the connection instead of answering."""


@dataclass(frozen=True, slots=True)
class CutAfter:
    """Forward, and reset the connection when so many bytes of the answer's body have passed."""

    size: int


@dataclass(frozen=True, slots=True)
class FreezeAfter:
    """Forward, and fall silent when so many bytes of the answer's body have passed: the connection stays open."""

    size: int = 0


@dataclass(frozen=True, slots=True)
class WatchError:
    """Answer a watch with 200 and one ERROR event inside: how an expired resourceVersion arrives (410 inside a 200)."""

    code: int = 410
    reason: str = "Expired"
    message: str = "too old resource version"


@dataclass(frozen=True, slots=True)
class Lie:
    """Forward a watch that lies: of its events, bookmarks aside, some are lost, some come twice, some after the next.
    The parts are of 1."""

    rng: random.Random
    lost: float = 0.4
    twice: float = 0.2
    late: float = 0.2


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep the request back until `release()`; `arrived` is set when it came. Then it is forwarded."""

    arrived: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def release(self) -> None:
        """Let it, and all later ones under this rule, pass."""
        self.released.set()


@dataclass(frozen=True, slots=True)
class HoldAnswer(Hold):
    """Forward, let the API server do it (then `arrived` is set), and keep its answer back until `release()`."""


Action = Answer | Delay | DelayAnswer | Cut | LoseAnswer | CutAfter | FreezeAfter | WatchError | Lie | Hold

TOO_MANY = Answer(429, "TooManyRequests", "too many requests", retry_after=1)
BROKEN = Answer(500, "InternalError", "internal error")
GONE = Answer(410, "Expired", "too old resource version")


@dataclass(slots=True, eq=False)
class Rule:
    """Do `action` for the next `times` requests that `match` (None: all). The first rule that takes one wins."""

    match: Match
    action: Action
    times: int | None = 1
    used: int = 0

    def takes(self, request: Request) -> bool:
        """Whether this rule acts on the request; counts it."""
        if (self.times is not None and self.used >= self.times) or not self.match(request):
            return False
        self.used += 1
        return True
