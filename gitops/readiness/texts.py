"""Text of others made fit for a status file, a report or a terminal: one line, bounded, no credentials."""

from __future__ import annotations

import functools
import re

LIMIT = 300

_SPACE = re.compile(r"[\s\x00-\x1f\x7f-\x9f\u2028\u2029]+")
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_TOKENS = re.compile(
    # The shapes of gitops/policy/credentials.py, shorter: a message may hold a token that was cut off.
    r"\b(?:nvapi-|hf_|gh[opsur]_|github_pat_|gl(?:pat|dt|rt|cbt|ptt|ft|soat)-|xox[abeoprs]-|AKIA|ASIA|AIza|npm_|pypi-"
    r"|dckr_(?:pat|oat)_|sk-(?:ant|proj)-|eyJ)[A-Za-z0-9_\-.]{8,}|\bsk-[A-Za-z0-9_-]{32,}"
    r"|(?<=[?&])(?:sshkey|token|access_token|password)=[^&\s]+"
    r"|-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|$)",
)


def one_line(text: object, limit: int = LIMIT) -> str:
    """`text` on one line of at most `limit` characters; credentials in URLs, tokens and PEM blocks become `***`."""
    if not isinstance(text, str) or not text:
        return ""
    if len(text) <= 60 and text.isalpha():
        return text  # a plain reason: nothing to clean
    return _kept_line(text, limit) if len(text) <= LIMIT else _line(text, limit)


def _line(text: str, limit: int) -> str:
    line = _SPACE.sub(" ", text[: limit * 8]).strip()
    line = without_credentials(line)
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


_kept_line = functools.lru_cache(maxsize=1024)(_line)
"""Of usual length: thousands of objects say the same, and each keeps what it says."""


def without_credentials(text: str) -> str:
    """`text` with credentials in URLs, tokens and PEM blocks as `***`: people write keys and names that are none."""
    return _TOKENS.sub("***", _CREDENTIALS.sub("***@", text))


def printable(text: str) -> str:
    """Text of others without control and format characters: none moves the cursor, colours, turns the direction of
    reading, or begins a line of its own, which CI systems may read as a command."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
