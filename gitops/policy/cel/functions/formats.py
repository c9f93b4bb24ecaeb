"""The format library: named formats, and what is wrong with a text. Sentences are ours, decisions the server's."""

from __future__ import annotations

import re
from collections.abc import Callable

from gitops.policy.cel.functions import urls
from gitops.policy.cel.functions.declaring import Function, Opaque, fields_of, opaque

_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?\Z")
_LABEL_1035 = re.compile(r"[a-z](?:[-a-z0-9]*[a-z0-9])?\Z")
_QUALIFIED = re.compile(r"(?:[A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]\Z")
_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}\Z", re.ASCII)
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})\Z")
_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})\Z")
_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})\Z")
_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

Check = Callable[[str], list[str]]


def _limited(pattern: re.Pattern[str], longest: int, what: str) -> Check:
    def check(text: str) -> list[str]:
        wrong = [] if len(text.encode()) <= longest else [f"must be no more than {longest} bytes"]
        return wrong if pattern.match(text) else [*wrong, f"must be {what}"]

    return check


def _subdomain(text: str) -> list[str]:
    wrong = [] if len(text.encode()) <= 253 else ["must be no more than 253 bytes"]
    if all(_LABEL.match(part) for part in text.split(".")):
        return wrong
    return [*wrong, "must be DNS labels (RFC 1123) with dots between them"]


_label = _limited(_LABEL, 63, "a DNS label (RFC 1123)")
_label_1035 = _limited(_LABEL_1035, 63, "a DNS label (RFC 1035)")
_name = _limited(_QUALIFIED, 63, "letters, digits, '-', '_' or '.', with a letter or digit at both ends")


def _qualified(text: str) -> list[str]:
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        return ["must have one '/' at most"]
    if not slash:
        return _name(name)
    return [f"prefix part {wrong}" for wrong in _subdomain(prefix)] + _name(name)


def _prefix(check: Check) -> Check:
    """For names that get a suffix: a dash at the end is fine. The server replaces the last two characters by `a`."""
    return lambda text: check(f"{text[:-2]}a" if len(text) > 1 and text.endswith("-") else text)


def _matching(matches: Callable[[str], object], what: str) -> Check:
    return lambda text: [] if matches(text) else [what]


def is_date(text: str) -> bool:
    found = _DATE.match(text)
    if found is None:
        return False
    year, month, day = map(int, found.groups())
    leap = month == 2 and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    return 1 <= month <= 12 and 1 <= day <= _DAYS[month - 1] + leap


def is_datetime(text: str) -> bool:
    date, _, time = text.lower().partition("t")
    found = _TIME.search(time)
    return is_date(date) and found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


def _uri(text: str) -> list[str]:
    wrong = urls.problem_of(text)
    return [f"must be a URL: it has {wrong}"] if wrong else []


FORMATS: dict[str, Check] = {
    "dns1123Label": _label,
    "dns1123Subdomain": _subdomain,
    "dns1035Label": _label_1035,
    "qualifiedName": _qualified,
    "dns1123LabelPrefix": _prefix(_label),
    "dns1123SubdomainPrefix": _prefix(_subdomain),
    "dns1035LabelPrefix": _prefix(_label_1035),
    "labelValue": lambda text: _name(text) if text else [],
    "uri": _uri,
    "uuid": _matching(_UUID.match, "does not match the UUID format"),
    "byte": _matching(_BASE64.match, "invalid base64"),
    "date": _matching(is_date, "invalid date"),
    "datetime": _matching(is_datetime, "invalid datetime"),
}


def _named(name: str) -> list[Opaque]:
    return [opaque("format", name=name)] if name in FORMATS else []


def _validate(format: Opaque, text: str) -> list[list[str]]:
    """A list of no or one list: the macros make an optional of it, which the engine's binding cannot carry."""
    wrong = FORMATS[fields_of(format, "format")["name"]](text)
    return [wrong] if wrong else []


FUNCTIONS = (
    Function("format.named", ("string",), "list", _named, member=False),
    Function("validate", ("map", "string"), "list", _validate),
    *(
        Function(f"format.{name}", (), "map", lambda name=name: opaque("format", name=name), member=False)
        for name in FORMATS
    ),
)
