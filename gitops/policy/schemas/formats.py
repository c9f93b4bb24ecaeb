"""Formats of strings that Kubernetes knows, with the meaning they have there; all others say nothing.

Source: the list in apiextensions-apiserver (validation/formats.go) and the meanings in kube-openapi (validation/strfmt)
and the Go functions named there. Names are compared without dashes, as there.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping

from gitops.policy.schemas.go_net import is_email, is_request_uri, is_unclear_email


def normalized(name: str) -> str:
    return name.replace("-", "")


def _matches(pattern: str, flags: re.RegexFlag = re.ASCII) -> Callable[[str], bool]:
    compiled = re.compile(pattern, flags)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str = "[0-9a-f]", variant: str = "[0-9a-f]") -> Callable[[str], bool]:
    body = f"[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}"
    return _matches(body, re.ASCII | re.IGNORECASE)


# -- numbers on books and cards ----------------------------------------------------------------------------------------


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text, flags=re.ASCII)
    if not re.fullmatch(r"(?:[0-9]{9}X|[0-9]{10})", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum((at + 1) * value for at, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text, flags=re.ASCII)
    if not re.fullmatch(r"[0-9]{13}", digits):
        return False
    return sum((1, 3)[at % 2] * int(digit) for at, digit in enumerate(digits)) % 10 == 0


_CARD = re.compile(
    r"4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35[0-9]{3})[0-9]{11}"
)


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not _CARD.fullmatch(digits):
        return False
    doubled = [int(digit) * (1 + at % 2) for at, digit in enumerate(reversed(digits))]
    return sum(value - 9 if value > 9 else value for value in doubled) % 10 == 0


# -- addresses ---------------------------------------------------------------------------------------------------------


def _ip(text: str, *, zeros: bool = True) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """As Go's net.ParseIP, which refuses zones, and leading zeros (`zeros`) only since Go 1.17."""
    head, colon, tail = text.rpartition(":")
    if "." in tail and zeros:
        parts = tail.split(".")
        if not all(re.fullmatch(r"[0-9]{1,100}", part) for part in parts):
            return None
        tail = ".".join(str(int(part)) for part in parts)
    try:
        return None if "%" in text else ipaddress.ip_address(head + colon + tail)
    except ValueError:
        return None


def _is_cidr(text: str) -> bool:
    address, slash, bits = text.partition("/")
    found = _ip(address)
    if not slash or found is None or not re.fullmatch(r"[0-9]{1,6}", bits):
        return False
    return int(bits) <= found.max_prefixlen


_MAC = re.compile(
    r"(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\1){4}[0-9A-Fa-f]{2}"
    r"|(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\2){6}[0-9A-Fa-f]{2}"
    r"|(?:[0-9A-Fa-f]{2}([:-]))(?:[0-9A-Fa-f]{2}\3){18}[0-9A-Fa-f]{2}"
    r"|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4}){2}|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4}){3}|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4}){9}"
)

_SYMBOL_CATEGORIES = frozenset({"Sm", "Sc", "Sk", "So"})


def _is_hostname(text: str) -> bool:
    """strfmt.HostnamePattern: one label, or labels and a last one of two to 63 letters; symbols count as letters."""

    def kind(char: str) -> str:
        if char in "-.":
            return char
        if char.isascii() and char.isdigit():
            return "d"
        category = unicodedata.category(char)
        return "l" if category[0] == "L" else "s" if category in _SYMBOL_CATEGORIES else "x"

    if len(text.encode("utf-8", "surrogatepass")) > 255:
        return False
    if any(len(part.encode("utf-8", "surrogatepass")) > 63 for part in text.split(".")):
        return False
    kinds = "".join(map(kind, text))
    return _HOST_KINDS.fullmatch(kinds) is not None


_HOST_KINDS = re.compile(r"[dls](?:-?[dls]{0,62})?|(?:[dls](?:[dls-]{0,61}[dls])?\.)+l{2,63}")


_BARE_MAC = re.compile(r"(?:[0-9A-Fa-f]{12}|[0-9A-Fa-f]{16}|[0-9A-Fa-f]{40})")


# -- times and texts ---------------------------------------------------------------------------------------------------


def _is_date(text: str) -> bool:
    """time.Parse("2006-01-02"), which knows the year 0."""
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
        return False
    year = int(text[:4]) or 2000  # both are leap years
    try:
        datetime.date(year, int(text[5:7]), int(text[8:]))
    except ValueError:
        return False
    return True


_TIME = re.compile(r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:.[0-9]+)?(?:z|[+-][0-9]{2}:[0-9]{2})")


def _is_datetime(text: str) -> bool:
    parts = text.lower().split("t")
    if len(text.encode("utf-8", "surrogatepass")) < 4 or len(parts) < 2 or not _is_date(parts[0]):
        return False
    found = _TIME.fullmatch(parts[1])
    return found is not None and found[1] <= "23" and found[2] <= "59" and found[3] <= "59"


_GO_DURATION = re.compile(r"[+-]?(?:0|(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)")
_DURATION_PART = re.compile(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)")
_UNITS = (
    *(("ns", "nano"), ("us", "µs", "micro"), ("ms", "milli"), ("s", "sec"), ("m", "min"), ("h", "hr", "hour")),
    *(("d", "day"), ("w", "wk", "week")),
)
_NANOSECONDS = {
    "ns": 1,
    "us": 1000,
    "µs": 1000,
    "μs": 1000,
    "ms": 10**6,
    "s": 10**9,
    "m": 6 * 10**10,
    "h": 36 * 10**11,
}


def _is_duration(text: str) -> bool:
    """Go's durations, and beyond them anything with one part like `2 weeks`: a number and a known unit."""
    if _GO_DURATION.fullmatch(text) and _go_nanoseconds(text) < 2**63:
        return True
    known = False
    for digits, unit in _DURATION_PART.findall(text):
        if len(digits.lstrip("0")) > 19 or int(digits) >= 2**63:
            return False
        unit = unit.lower()
        known |= any(unit in names or unit.startswith(names[-1]) for names in _UNITS)
    return known


def _go_nanoseconds(text: str) -> float:
    parts = re.findall(r"([0-9.]+)([a-zµμ]+)", text)
    if any(len(number) > 400 for number, _ in parts):
        return float("inf")
    return sum(float(number) * _NANOSECONDS[unit] for number, unit in parts)


_BYTE = r"(?:0|[1-9][0-9]?|1[0-9][0-9]?|2[0-4][0-9]|25[0-5])"
_RGB = rf"rgb\([\t\n\f\r ]*{_BYTE}[\t\n\f\r ]*,[\t\n\f\r ]*{_BYTE}[\t\n\f\r ]*,[\t\n\f\r ]*{_BYTE}[\t\n\f\r ]*\)"
_SHORT = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_short_name = _matches(_SHORT)
_long_name = _matches(rf"{_SHORT}(?:\.{_SHORT})*")

FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "uri": is_request_uri,
    "email": is_email,
    "hostname": _is_hostname,
    "ipv4": lambda text: _ip(text) is not None and "." in text,
    "ipv6": lambda text: ":" in text and _ip(text, zeros=False) is not None,
    "cidr": _is_cidr,
    "mac": lambda text: _MAC.fullmatch(text) is not None or _BARE_MAC.fullmatch(text) is not None,
    "uuid": _uuid(),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4", "[89ab]"),
    "uuid5": _uuid("5", "[89ab]"),
    "isbn": lambda text: _is_isbn10(text) or _is_isbn13(text),
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "creditcard": _is_credit_card,
    "ssn": _matches(r"[0-9]{3}[- ][0-9]{2}[- ][0-9]{4}"),
    "hexcolor": _matches("#?(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "rgbcolor": _matches(_RGB),
    "byte": _matches("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=|[A-Za-z0-9+/]{4})"),  # not empty
    "password": lambda text: True,
    "date": _is_date,
    "duration": _is_duration,
    "datetime": _is_datetime,
    "k8sshortname": lambda text: True,
    "k8slongname": lambda text: True,
}

CLEAR: Mapping[str, Callable[[str], bool]] = {
    "email": lambda text: not is_unclear_email(text),
    "mac": lambda text: _BARE_MAC.fullmatch(text) is None,  # newer versions of Go take it
    "k8sshortname": lambda text: len(text) <= 63 and _short_name(text),  # before Kubernetes 1.34 nobody looks
    "k8slongname": lambda text: len(text) <= 253 and _long_name(text),
}
"""Where a text passes its format and fails here, nobody knows what the API server says."""
