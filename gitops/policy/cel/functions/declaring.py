"""How a function is declared, and what the functions share: opaque values, equality, errors without values in them.

An opaque value (a quantity, an address) is a map with the key `@type`, because the engine's binding cannot carry Python
objects. Equal maps are equal values, so what makes no difference must not be in them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

Opaque = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Function:
    """`takes` and `gives` are names of the engine's types: string int bool double list map dyn …"""

    name: str
    takes: tuple[str, ...]
    gives: str
    call: Callable[..., Any]
    member: bool = True


class CallError(ValueError):
    """An API server's function fails here, too."""


class GaveUpError(ValueError):
    """Only this implementation fails: the rule is unchecked."""

    def __init__(self, why: str) -> None:
        super().__init__(GAVE_UP + why)


GAVE_UP = "this engine gives up: "
"""How the message of a GaveUpError starts, which is all that passes through the engine."""

NO_OVERLOAD = "No matching overloads found"
LONGEST = 10_000
"""Items of a list that a function makes: as many as the engine has iterations."""


def opaque(kind: str, **fields: Any) -> Opaque:
    return {"@type": kind, **fields}


def fields_of(value: Opaque, *kinds: str) -> Opaque:
    """Raises CallError when the value is not of one of the kinds."""
    if value.get("@type") not in kinds:
        raise CallError(NO_OVERLOAD)
    return value


def identity(value: Any) -> Hashable:
    """Equal exactly for values that CEL calls equal: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, list):
        return ("list", tuple(map(identity, value)))
    if isinstance(value, dict):
        return ("map", frozenset((identity(k), identity(v)) for k, v in value.items()))
    if isinstance(value, bytes | bytearray):
        return ("bytes", bytes(value))
    return value if isinstance(value, Hashable) else repr(value)
