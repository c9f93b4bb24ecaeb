"""Functions that an API server has and the engine has not."""

from __future__ import annotations

from typing import Any

GAVE_UP = "this engine gives up: "
"""Start of an error message of a function that says nothing about the expression."""


def declarations() -> list[Any]:
    """All of them, for the engine."""
    return []
