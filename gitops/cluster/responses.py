"""An answer of an API server as callers get it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from gitops.cluster.errors import ApiError, RequestFailed, classify, cut, unreachable

MOST_WARNINGS = 8


@dataclass(frozen=True, slots=True)
class Response:
    """An answer of the API server, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    warnings: tuple[str, ...] = ()  # texts of its Warning headers, cut

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        """The body decoded. Raises RequestFailed when it is no JSON (a proxy in between, a cut answer)."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RequestFailed(unreachable("the answer is not JSON", reason="NotJson")) from error

    def error(self, *, resource: str = "", applying: bool = False) -> ApiError:
        """The class of an answer that is not ok (errors.classify)."""
        return classify(self.status, self.headers, self.body, resource=resource, applying=applying)


def warnings_of(headers: Sequence[str]) -> tuple[str, ...]:
    """The texts of its Warning headers, as many as people would read."""
    return tuple(_warning_text(header) for header in headers[:MOST_WARNINGS])


def _warning_text(header: str) -> str:
    """Text of a Warning header (`299 - "text"`, RFC 7234 5.5)."""
    first, last = header.find('"'), header.rfind('"')
    text = header[first + 1 : last] if 0 <= first < last else header
    return cut(text.replace('\\"', '"').replace("\\\\", "\\"))
