"""Versions of operators and ranges of them, as documents write them: PEP 440, by the packaging library.

Operators tag releases as `1.2.1`, `v3.1.0` or `0.1.0-alpha.11`; all of them are PEP 440 versions.
"""

from __future__ import annotations

from typing import Annotated

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, StringConstraints


def satisfies(version: str, wanted: str) -> bool:
    """Whether a version is within a range. Pre-releases count: who runs one, runs it on purpose.

    Raises InvalidVersion or InvalidSpecifier (both ValueError) for texts that are none.
    """
    return SpecifierSet(wanted).contains(Version(version), prereleases=True)


def is_version(text: str) -> bool:
    """Whether the text is a version; what clusters tell need not be one (`latest`, a digest)."""
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _version(text: str) -> str:
    if not is_version(text):
        raise ValueError("not a version such as 1.2.1, v3.1.0 or 0.1.0-alpha.11")
    return text


def _range(text: str) -> str:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError("not a range of versions such as >=1.2,<2 or ==1.5.*") from None
    return text


OperatorVersion = Annotated[str, StringConstraints(min_length=1, max_length=64), AfterValidator(_version)]
VersionRange = Annotated[str, StringConstraints(min_length=1, max_length=128), AfterValidator(_range)]
