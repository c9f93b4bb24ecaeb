"""Rate limits of functions: `<number>-<unit>`, comma-joined, no unit twice (NVCF's grammar, `100-S,5000-H`)."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, StringConstraints

_RATE = re.compile(r"([1-9][0-9]{0,17})-([SMHDW])\Z", re.ASCII)


def _check(text: str, units: str) -> str:
    seen = []
    for part in text.split(","):
        found = _RATE.match(part)
        if found is None or found[2] not in units:
            raise ValueError(f"a rate is a number, a hyphen and one of {', '.join(units)}, such as 100-S,5000-H")
        seen.append(found[2])
    if len(set(seen)) < len(seen):
        raise ValueError("a unit may stand in a rate only once")
    return text


_Text = StringConstraints(min_length=3, max_length=128)
Rate = Annotated[str, _Text, AfterValidator(lambda text: _check(text, "SMHD"))]
TokenRate = Annotated[str, _Text, AfterValidator(lambda text: _check(text, "SMHDW"))]
