"""Logging: one JSON object a line for machines, a short line for terminals, and no secret in either.

Plain `logging` with two formatters. What a line is about (unit, cluster, commit) travels in context variables: code
binds them once at the top of a task and every line below it carries them, libraries' lines too. Redaction sits in the
formatters and not in a filter, so that it also covers tracebacks.
"""

from __future__ import annotations

import base64
import logging
import re
import sys
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO

import msgspec

_FIELDS = ("unit", "cluster", "commit", "object", "path", "manager", "result")
"""What a line may be about: the first three by its context, the others where drift is told, found or repaired."""

_context: ContextVar[dict[str, str] | None] = ContextVar("gitops_log_context", default=None)

_URL = re.compile(r"\b([a-zA-Z][a-zA-Z0-9+.-]*://)((?:[^\s/?#'\"<>]*@)?)([^\s?#'\"<>]*)([?#][^\s'\"<>]*)?")
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028\u2029]")
_SHORTEST_SECRET = 6  # shorter values would blank out innocent words


@contextmanager
def bound(*, unit: object = None, cluster: object = None, commit: object = None) -> Iterator[None]:
    """Within the block, log lines of this task and of tasks it starts carry the fields given; None changes nothing."""
    new = {"unit": unit, "cluster": cluster, "commit": commit}
    token = _context.set({**(_context.get() or {}), **{k: str(v) for k, v in new.items() if v is not None}})
    try:
        yield
    finally:
        _context.reset(token)


def redact_urls(text: str) -> str:
    """Remove user, password, query and fragment from every absolute URL in a text.

    `https://bot:s3cr3t@git.example/x.git?sshkey=abc` → `https://git.example/x.git`.
    """
    return _URL.sub(lambda m: m[1] + m[3], text) if "://" in text else text


class Redactor:
    """Removes URLs' credentials and every value it was told to keep secret."""

    def __init__(self) -> None:
        self._pattern: re.Pattern[str] | None = None
        self._values: set[str] = set()

    def add(self, secret: str) -> None:
        """Never show this value again, plain, percent-encoded or in base64. Very short ones are ignored."""
        secret = secret.strip()
        if len(secret) < _SHORTEST_SECRET or secret in self._values:
            return
        encoded = base64.b64encode(secret.encode()).decode()
        self._values |= {secret, urllib.parse.quote(secret, safe=""), encoded}
        longest_first = sorted(self._values, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, text: str) -> str:
        if self._pattern is not None:
            text = self._pattern.sub("***", text)
        return redact_urls(text)


REDACTOR = Redactor()
"""The process's redactor: whoever reads a secret from a file adds it here."""


def _timestamp(created: float) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
    return f"{whole}.{int(created % 1 * 1000):03d}Z"


class JsonFormatter(logging.Formatter):
    """One line: time, level, logger, message; unit, cluster, commit where known; error with the traceback."""

    def __init__(self, redactor: Redactor = REDACTOR) -> None:
        super().__init__()
        self._redact = redactor

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": _timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(record.getMessage()),
            **{name: self._redact(value) for name, value in _about(record).items()},
        }
        if record.exc_info and record.exc_info[0] is not None:
            line["error"] = self._redact(self.formatException(record.exc_info))
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """`12:03:44.120 INFO  message  unit=… cluster=…`, control characters escaped so that no value can fake a line."""

    def __init__(self, redactor: Redactor = REDACTOR) -> None:
        super().__init__()
        self._redact = redactor

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%H:%M:%S", time.localtime(record.created))
        fields = "".join(f"  {name}={value}" for name, value in _about(record).items())
        text = self._redact(record.getMessage() + fields)
        text = _CONTROL.sub(lambda m: m[0].encode("unicode_escape").decode(), text)
        line = f"{moment}.{int(record.created % 1 * 1000):03d} {record.levelname:<7} {text}"
        if record.exc_info and record.exc_info[0] is not None:
            line += "\n" + self._redact(self.formatException(record.exc_info))
        return line


def _about(record: logging.LogRecord) -> dict[str, str]:
    """Fields of the context, overridden by `extra={"unit": …}` of the call."""
    context = _context.get() or {}
    found = {}
    for name in _FIELDS:
        value = getattr(record, name, None) or context.get(name)
        if value is not None:
            found[name] = str(value)
    return found


def configure(*, level: str, format: str, stream: IO[str] | None = None) -> None:
    """Send all logging to `stream` (standard error). `format` is `json`, `text` or `auto` (text on a terminal)."""
    stream = sys.stderr if stream is None else stream
    if format == "auto":
        format = "text" if stream.isatty() else "json"
    handler = logging.StreamHandler(stream)
    handler.setFormatter(TextFormatter() if format == "text" else JsonFormatter())
    root = logging.getLogger()
    for old in root.handlers[:]:
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for noisy in ("apscheduler", "asyncio", "watchfiles", "aiohttp.access"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, root.level))
