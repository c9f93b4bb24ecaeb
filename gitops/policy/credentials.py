"""Credentials in plain text: a fixed list of shapes that cannot be anything else, no guesses by entropy.

Certificates and public keys are public by nature and pass. A value is never shown, only its path and its shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from gitops.manifests.lines import Path

_SHAPES: tuple[tuple[str, str], ...] = (
    ("a private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"),
    ("a GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})"),
    ("a GitLab token", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_-]{20,}"),
    ("an AWS access key id", r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    ("a Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}"),
    ("an NGC API key", r"\bnvapi-[A-Za-z0-9_-]{40,}"),
    ("a Hugging Face token", r"\bhf_[A-Za-z0-9]{30,}"),
    ("a Google API key", r"\bAIza[A-Za-z0-9_-]{35}"),
    ("an npm token", r"\bnpm_[A-Za-z0-9]{36}"),
    ("a PyPI token", r"\bpypi-AgEIcHlwaS[A-Za-z0-9_-]{50,}"),
    ("a Docker Hub token", r"\bdckr_(?:pat|oat)_[A-Za-z0-9_-]{20,}"),
    ("an OpenAI or Anthropic key", r"\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{32,}"),
    (
        "a signed token (JWT)",
        r"(?<![A-Za-z0-9_-])(?>(?:(?!\beyJ)[A-Za-z0-9_-])*)"
        r"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{20,}",
    ),
    ("a URL with a password", r"(?<![a-z0-9+.-])[a-z0-9+.-]+://[^\s/:@]+:[^\s/:@$({<]{3,}@[^\s/]+"),
)
"""The last two begin with what may be long: they look only where a run of such characters begins, or a text of many
beginnings (`a.a.a.…`) would be read anew from each of them."""
_ANY = re.compile("|".join(f"(?:{pattern})" for _, pattern in _SHAPES))
_COMPILED = tuple((name, re.compile(pattern)) for name, pattern in _SHAPES)
_SHORTEST = 12


def looks_like(text: str) -> str | None:
    """What kind of credential a text holds, in words; None when it holds none."""
    if len(text) < _SHORTEST or not _ANY.search(text):
        return None
    return next((name for name, pattern in _COMPILED if pattern.search(text)), None)


def credentials_in(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Paths of a JSON value at which a credential stands, with what it looks like."""
    if isinstance(value, str):
        if (what := looks_like(value)) is not None:
            yield path, what
    elif isinstance(value, dict):
        for key, child in value.items():
            if not isinstance(child, int | float | None):
                yield from credentials_in(child, (*path, key))
    elif isinstance(value, list):
        for position, child in enumerate(value):
            yield from credentials_in(child, (*path, position))
