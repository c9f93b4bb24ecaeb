"""Durations in documents of functions and tasks: ISO 8601 as NVCF's API takes them (Java's Duration.parse)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

PATTERN = r"^P([0-9]{1,9}D)?(T([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,9}(\.[0-9]{1,9})?S)?)?$"
_PARTS = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:([\d.]+)S)?)?\Z", re.ASCII)
_SECONDS = (86_400, 3_600, 60, 1)


def seconds_of(text: str) -> float:
    """`PT1H30M` → 5400.0. Raises ValueError for what is no duration."""
    found = _PARTS.match(text)
    if found is None or text.endswith(("P", "T")):
        raise ValueError("a duration is written as PT90S, PT15M, PT8H or P1DT12H")
    return sum(float(number) * unit for number, unit in zip(found.groups(), _SECONDS, strict=True) if number)


def _checked(text: str) -> str:
    seconds_of(text)
    return text


def _above_zero(text: str) -> str:
    if not seconds_of(text):
        raise ValueError("a duration above zero is needed")
    return text


IsoDuration = Annotated[str, StringConstraints(pattern=PATTERN), AfterValidator(_checked)]
PositiveDuration = Annotated[str, StringConstraints(pattern=PATTERN), AfterValidator(_above_zero)]
