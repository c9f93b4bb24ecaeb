"""Values: when a live value is the declared one, and which values must not be shown.

Pure. Two values are the same when the API server treats them the same at that path, no more generously: numbers by
value, quantities where a resource list says so, base64 by its bytes; text is compared as text.
"""

from __future__ import annotations

import base64
import binascii
import enum
import re
from typing import Any, Final

from gitops.manifests import quantities
from gitops.manifests.lines import Path
from gitops.policy.credentials import looks_like


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
"""Stands for a live value that must not be shown and is another one. No digest: short secrets can be guessed."""


class Match(enum.IntEnum):
    """How a live value compares with a declared one; the larger is the worse."""

    SAME = 0
    PADDED = 1  # all that is declared is there, and more: defaults, or what is left of an earlier declaration
    OTHER = 2


# -- sameness --------------------------------------------------------------------------------------------------------

_QUANTITY_FIELDS = frozenset({"sizeLimit", "divisor", "averageValue", "targetAverageValue"})


def is_quantity(path: Path) -> bool:
    """Whether the value at `path` is a resource.Quantity by the shapes of core/v1 and autoscaling/v2, which custom
    resources that embed pod templates repeat. A plain text field elsewhere is never taken for one."""
    last = path[-1] if path else ""
    parent = path[-2] if len(path) > 1 else ""
    if last in _QUANTITY_FIELDS or not quantities.RESOURCE_LISTS.isdisjoint(path[-3:-1]):
        return True  # one map more in between: `resources.limits.custom` of Dynamo
    if parent in quantities.LIMIT_RANGE_LISTS and len(path) > 3 and path[-4] == "limits":
        return True
    return last == "value" and parent == "target"


def is_bytes(path: Path, kind: str) -> bool:
    """Whether the value at `path` is base64 of bytes, which the API server writes anew."""
    if path and path[-1] == "caBundle":
        return True
    return len(path) == 2 and ((kind == "Secret" and path[0] == "data") or path[0] == "binaryData")


def same_scalar(declared: Any, live: Any, *, path: Path, kind: str) -> bool:
    """Whether two scalars are one value to the API server. `kind` is the object's."""
    if declared == live:
        return isinstance(declared, bool) == isinstance(live, bool)
    if isinstance(declared, bool) or isinstance(live, bool):
        return False
    if is_quantity(path) and isinstance(declared, (str, int, float)) and isinstance(live, (str, int, float)):
        return quantities.equal_quantities(declared, live)
    if isinstance(declared, str) and isinstance(live, str) and is_bytes(path, kind):
        return _decoded(declared) == _decoded(live) is not None
    return False


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=False)
    except (binascii.Error, ValueError):
        return None


def holds(live: Any, declared: Any) -> bool:
    """Whether every declared value is there literally, lists item by item. Most live objects are so, and this is a
    tenth of the cost of comparing what values mean."""
    if isinstance(declared, dict):
        return isinstance(live, dict) and all(key in live and holds(live[key], v) for key, v in declared.items())
    if isinstance(declared, list):
        return isinstance(live, list) and len(live) == len(declared) and all(map(holds, live, declared))
    return bool(live == declared)


def same(declared: Any, live: Any, *, path: Path, kind: str) -> Match:
    """Compare a whole value, such as an atomic list or map. Members that the live value has beyond the declared ones
    make it PADDED: the server fills in defaults there too (`apiGroup` of a RoleBinding's subjects)."""
    if isinstance(declared, dict):
        if not isinstance(live, dict):
            return Match.SAME if live in (None, ABSENT) and is_meaningless(declared) else Match.OTHER
        worst = (
            Match.PADDED if any(k not in declared and not is_meaningless(v) for k, v in live.items()) else Match.SAME
        )
        for key, value in declared.items():
            worst = max(worst, same(value, live.get(key, ABSENT), path=(*path, key), kind=kind))
        return worst
    if isinstance(declared, list):
        if not isinstance(live, list):
            return Match.SAME if live in (None, ABSENT) and not declared else Match.OTHER
        if len(declared) != len(live):
            return Match.OTHER
        pairs = zip(declared, live, strict=True)
        return max(
            (same(d, v, path=(*path, i), kind=kind) for i, (d, v) in enumerate(pairs)),
            default=Match.SAME,
        )
    if live in (None, ABSENT) and not isinstance(live, (dict, list)):
        return Match.SAME if is_zero(declared) else Match.OTHER
    return Match.SAME if same_scalar(declared, live, path=path, kind=kind) else Match.OTHER


def is_zero(value: Any) -> bool:
    """What Go's `omitempty` leaves out: false, 0, "" and null."""
    return value is None or (isinstance(value, (bool, int, float, str)) and not value)


def is_meaningless(value: Any) -> bool:
    """Empty all the way down: zero values, {} and []."""
    if isinstance(value, dict):
        return all(is_meaningless(v) for v in value.values())
    if isinstance(value, list):
        return not value
    return is_zero(value)


# -- hiding ----------------------------------------------------------------------------------------------------------

_SECRET_NAME = re.compile(r"(?i)passw|passphrase|token|secret|credential|api_?key|private_?key|access_?key")
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def is_secret(path: Path, kind: str) -> bool:
    """Whether everything at and below `path` must be hidden: data of a Secret, and copies of it."""
    if kind == "Secret":
        return path[:1] in (("data",), ("stringData",)) or path[:3] == ("metadata", "annotations", _LAST_APPLIED)
    return kind == "ConfigMap" and len(path) > 1 and path[0] in ("data", "binaryData") and _named_secret(path[1])


def conceal(value: Any, mask: str, *, path: Path, kind: str, owner: Any = None) -> tuple[Any, bool]:
    """`value` with what must not be shown replaced by `mask`, and whether anything was. Keys stay.

    `owner` is the map that holds the value: `{name: HF_TOKEN, value: …}` is hidden by its name, and a text that looks
    like a credential by what it is. A live value may be a secret that somebody typed in, although Git has none.
    """
    if isinstance(value, Absent):
        return value, False
    named = isinstance(owner, dict) and path[-1:] == ("value",) and _named_secret(owner.get("name"))
    if named or is_secret(path, kind):
        return _cover(value, mask), True
    if isinstance(value, dict):
        pairs = {k: conceal(v, mask, path=(*path, k), kind=kind, owner=value) for k, v in value.items()}
        return {k: v for k, (v, _) in pairs.items()}, any(hidden for _, hidden in pairs.values())
    if isinstance(value, list):
        items = [conceal(v, mask, path=(*path, i), kind=kind) for i, v in enumerate(value)]
        return [v for v, _ in items], any(hidden for _, hidden in items)
    if isinstance(value, str) and looks_like(value) is not None:
        return mask, True
    return value, False


def _named_secret(name: Any) -> bool:
    return isinstance(name, str) and _SECRET_NAME.search(name) is not None


def _cover(value: Any, mask: str) -> Any:
    if isinstance(value, dict):
        return {k: _cover(v, mask) for k, v in value.items()}
    return mask
