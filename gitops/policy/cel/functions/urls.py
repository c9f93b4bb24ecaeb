"""URLs as Go's net/url reads them (ParseRequestURI: an absolute URL or an absolute path)."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote, unquote_to_bytes

from gitops.policy.cel.functions.declaring import CallError, Function, Opaque, fields_of, opaque

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = re.compile(r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:<>\"\[\]\x80-\U0010ffff]|%[89A-Fa-f][0-9A-Fa-f])*\Z")
_USER = re.compile(r"[A-Za-z0-9\-._:~!$&'()*+,;=%@]*\Z")
_PORT = re.compile(r"(?::[0-9]*)?\Z")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PATH = re.compile(r"[A-Za-z0-9\-._~!$&'()*+,;=:@\[\]/%]*\Z")
_PATH_SAFE = "$&+,/:;=@-_.~"


def problem_of(text: str) -> str:
    """Why it is no URL; "" when it is one. Says nothing of the text."""
    if _CONTROL.search(text):
        return "a control character"
    scheme = _SCHEME.match(text)
    rest = text[scheme.end() :] if scheme else text
    if text.startswith(":"):
        return "no scheme before the colon"
    if not text or (not scheme and not rest.startswith("/") and text != "*"):
        return "neither an absolute URL nor an absolute path"
    if text == "*" or (scheme and not rest.startswith("/")):
        return ""
    return _problem_of_hierarchy(rest, has_authority=bool(scheme) and rest.startswith("//"))


def _problem_of_hierarchy(rest: str, *, has_authority: bool) -> str:
    """`rest` is what follows the scheme."""
    rest = rest.partition("?")[0]
    if has_authority:
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
        if wrong := _problem_of_authority(authority):
            return wrong
    return "an escape that is none" if _BAD_ESCAPE.search(rest) else ""


def _problem_of_authority(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and (not _USER.match(user) or _BAD_ESCAPE.search(user)):
        return "characters that no user name has"
    if host.startswith("["):
        address, closed, port = host.rpartition("]")
        if not closed or not _PORT.match(port):
            return "no port after the address"
        return "" if _HOST.match(re.sub("%25.*", "", address)) else "characters that no host has"
    if not _PORT.match(host[host.rfind(":") :] if ":" in host else ""):
        return "a port that is no number"
    return "" if _HOST.match(host) else "characters that no host has"


def _url(text: str) -> Opaque:
    """Read twice, as there: with the rules above, and then with url.Parse, which knows fragments and `//host/path`."""
    before, _, fragment = text.partition("#")
    scheme = _SCHEME.match(before)
    rest = before[scheme.end() :] if scheme else before
    hierarchy = rest.startswith("/") and _problem_of_hierarchy(rest, has_authority=_has_authority(rest, scheme))
    if problem_of(text) or _BAD_ESCAPE.search(fragment) or hierarchy:
        raise CallError("no URL")
    return opaque("url", text=text)


def _has_authority(rest: str, scheme: object) -> bool:
    return rest.startswith("//") and (bool(scheme) or not rest.startswith("///"))


def _split(url: Opaque) -> tuple[str, str, str, str]:
    """Scheme, host with port, path as written, query."""
    text = fields_of(url, "url")["text"].partition("#")[0]
    scheme = _SCHEME.match(text)
    rest, _, query = text[scheme.end() if scheme else 0 :].partition("?")
    host = ""
    if _has_authority(rest, scheme):
        authority, slash, path = rest[2:].partition("/")
        host, rest = authority.rpartition("@")[2], slash + path
    elif scheme and not rest.startswith("/"):
        rest = ""  # opaque: mailto:someone
    return scheme[1].lower() if scheme else "", unquote(host), rest, query


def _port(url: Opaque) -> str:
    found = re.search(r":([0-9]*)\Z", _split(url)[1])
    return found[1] if found else ""


def _hostname(url: Opaque) -> str:
    host = re.sub(r":[0-9]*\Z", "", _split(url)[1])
    return host[1:-1] if host.startswith("[") and host.endswith("]") else host


def _path(url: Opaque) -> str:
    path = _split(url)[2]
    return path if _PATH.match(path) else quote(unquote_to_bytes(path), safe=_PATH_SAFE)


def _query(url: Opaque) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for pair in _split(url)[3].split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        key, _, value = pair.partition("=")
        result.setdefault(_unescaped(key), []).append(_unescaped(value))
    return result


def _unescaped(text: str) -> str:
    return unquote(text.replace("+", " "))


def _part(position: int) -> Any:
    return lambda url: _split(url)[position]


FUNCTIONS = (
    Function("url", ("string",), "map", _url, member=False),
    Function("isURL", ("string",), "bool", lambda text: not problem_of(text), member=False),
    Function("getScheme", ("map",), "string", _part(0)),
    Function("getHost", ("map",), "string", _part(1)),
    Function("getHostname", ("map",), "string", _hostname),
    Function("getPort", ("map",), "string", _port),
    Function("getEscapedPath", ("map",), "string", _path),
    Function("getQuery", ("map",), "map", _query),
)
