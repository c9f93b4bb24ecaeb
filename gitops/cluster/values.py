"""Values: when a live value is the declared one, and which values must not be shown.

Pure. Two values are the same when the API server would treat them the same at that path, no more generously: numbers by
value, quantities where a resource list says so, base64 by its bytes; text is compared as text.
"""

from __future__ import annotations

import base64
import binascii
import enum
import re
from typing import Any, Final

from gitops.manifests import quantities

Path = tuple[str | int, ...]
"""Keys and list positions of the declared payload."""


class Absent(enum.Enum):
    """The sentinel for "there is no such value"; null is a value."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"

    __str__ = __repr__


ABSENT: Final = Absent.ABSENT

MASK = "(hidden)"
"""Stands for a declared value that must not be shown."""

MASK_OTHER = "(hidden, another value)"
"""Stands for a live value that must not be shown and is not the declared one. No digest: short secrets are guessable."""
