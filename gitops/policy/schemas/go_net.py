"""What Go's net/url.ParseRequestURI and net/mail.ParseAddress take, for the formats `uri` and `email`."""

from __future__ import annotations

import ipaddress
import re

# -- uri ---------------------------------------------------------------------------------------------------------------

_ESCAPES = re.compile(r"(?:[^%]|%[0-9A-Fa-f]{2})*", re.DOTALL)
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_USER = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*")
_HOST = re.compile(r"""(?:[A-Za-z0-9._~!$&'()*+,;=:\[\]<>"-]|[^\x00-\x7f]|%25|%[89A-Fa-f][0-9A-Fa-f])*""")
_ZONE = re.compile(r"""(?:[A-Za-z0-9._~!$&'()*+,;=:\[\]<>"-]|[^\x00-\x7f]|%[0-9A-Fa-f]{2})*""")


def is_request_uri(text: str) -> bool:
    if not text or any(char < " " or char == "\x7f" for char in text) or text.startswith(":"):
        return False
    if text == "*":
        return True
    found = _SCHEME.match(text)
    rest = (text[found.end() :] if found else text).partition("?")[0]
    if not rest.startswith("/"):
        return found is not None
    if found and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        if not _is_authority(authority):
            return False
    return _ESCAPES.fullmatch(rest) is not None


def _is_authority(authority: str) -> bool:
    user, _, host = authority.rpartition("@")
    if not _USER.fullmatch(user) or not _ESCAPES.fullmatch(user):
        return False
    if "[" in host:
        inner, bracket, port = host[1:].rpartition("]")
        return host.rfind("[") == 0 and bool(bracket) and _is_port(port) and _is_literal(inner)
    port_at = host.rfind(":")
    return _HOST.fullmatch(host) is not None and (port_at < 0 or _is_port(host[port_at:]))


def _is_port(text: str) -> bool:
    return re.fullmatch(r"(?::[0-9]*)?", text) is not None


def _is_literal(inner: str) -> bool:
    address, percent, zone = inner.partition("%25")
    if (percent and not zone) or not _ZONE.fullmatch(zone):
        return False
    try:
        return ipaddress.ip_address(address).version == 6
    except ValueError:
        return False


# -- email -------------------------------------------------------------------------------------------------------------

_ATOM = r"(?:[!#-'*+\-/-9=?A-Z^-~]|[^\x00-\x7f])+"
_DOT_ATOM = rf"{_ATOM}(?:\.{_ATOM})*"
_PLAIN = re.compile(rf"[ \t]*{_DOT_ATOM}@[ \t]*{_DOT_ATOM}[ \t]*")
_RICH = re.compile(r'[<>(),:;"\[\]\\]')


def is_email(text: str) -> bool:
    """Also true for what is_unclear_email() says of: names, comments, groups, quotes and addresses of hosts."""
    return _PLAIN.fullmatch(text) is not None or is_unclear_email(text)


def is_unclear_email(text: str) -> bool:
    return "@" in text and _RICH.search(text) is not None
