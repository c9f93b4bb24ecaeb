"""IP addresses and networks, as Go's net/netip reads them: no zones, no IPv4 in IPv6, no leading zeros."""

from __future__ import annotations

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

from gitops.policy.cel.functions.declaring import CallError, Function, Opaque, fields_of, opaque

_Address = IPv4Address | IPv6Address
_BROADCAST = IPv4Address("255.255.255.255")
_LOCAL_MULTICAST = ip_network("224.0.0.0/24")


def _parse(text: str) -> _Address:
    try:
        address = ip_address(text) if "%" not in text else None
    except ValueError:
        address = None
    if address is None or (isinstance(address, IPv6Address) and address.ipv4_mapped):
        raise CallError("no IP address")
    return address


def _parse_network(text: str) -> tuple[_Address, int]:
    """Address with its host bits, and length of the prefix."""
    host, slash, length = text.rpartition("/")
    if not slash or not re.fullmatch("0|[1-9][0-9]{0,2}", length):
        raise CallError("no network")
    address = _parse(host)
    if int(length) > address.max_prefixlen:
        raise CallError("no network")
    return address, int(length)


def _ip(text: str) -> Opaque:
    return opaque("ip", address=str(_parse(text)))


def _address(value: Opaque) -> _Address:
    return ip_address(fields_of(value, "ip")["address"])


def _cidr(text: str) -> Opaque:
    address, length = _parse_network(text)
    return opaque("cidr", network=f"{address}/{length}")


def _network(value: Opaque) -> tuple[_Address, int]:
    return _parse_network(fields_of(value, "cidr")["network"])


def _valid(parse: Any) -> Any:
    def check(text: str) -> bool:
        try:
            parse(text)
        except CallError:
            return False
        return True

    return check


def _is_canonical(text: str) -> bool:
    return str(_parse(text)) == text


def _link_local_multicast(value: Opaque) -> bool:
    address = _address(value)
    if isinstance(address, IPv4Address):
        return address in _LOCAL_MULTICAST
    return int(address) >> 112 & 0xFF0F == 0xFF02


def _global_unicast(value: Opaque) -> bool:
    a = _address(value)
    return not (a.is_unspecified or a == _BROADCAST or a.is_loopback or a.is_multicast or _link_local_unicast(value))


def _link_local_unicast(value: Opaque) -> bool:
    return _address(value).is_link_local


def _contains_ip(cidr: Opaque, ip: Opaque | str) -> bool:
    address, length = _network(cidr)
    other = _parse(ip) if isinstance(ip, str) else _address(ip)
    return _within(other, address, length)


def _contains_cidr(cidr: Opaque, other: Opaque | str) -> bool:
    address, length = _network(cidr)
    inner, inner_length = _parse_network(other) if isinstance(other, str) else _network(other)
    return length <= inner_length and _within(inner, address, length)


def _within(address: _Address, network: _Address, length: int) -> bool:
    shift = network.max_prefixlen - length
    return address.version == network.version and int(address) >> shift == int(network) >> shift


def _masked(cidr: Opaque) -> Opaque:
    address, length = _network(cidr)
    return opaque("cidr", network=str(ip_network(f"{address}/{length}", strict=False)))


FUNCTIONS = (
    Function("ip", ("string",), "map", _ip, member=False),
    Function("isIP", ("string",), "bool", _valid(_parse), member=False),
    Function("ip.isCanonical", ("string",), "bool", _is_canonical, member=False),
    Function("family", ("map",), "int", lambda value: _address(value).version),
    Function("isUnspecified", ("map",), "bool", lambda value: _address(value).is_unspecified),
    Function("isLoopback", ("map",), "bool", lambda value: _address(value).is_loopback),
    Function("isLinkLocalMulticast", ("map",), "bool", _link_local_multicast),
    Function("isLinkLocalUnicast", ("map",), "bool", _link_local_unicast),
    Function("isGlobalUnicast", ("map",), "bool", _global_unicast),
    Function("cidr", ("string",), "map", _cidr, member=False),
    Function("isCIDR", ("string",), "bool", _valid(_parse_network), member=False),
    Function("containsIP", ("map", "string"), "bool", _contains_ip),
    Function("containsIP", ("map", "map"), "bool", _contains_ip),
    Function("containsCIDR", ("map", "string"), "bool", _contains_cidr),
    Function("containsCIDR", ("map", "map"), "bool", _contains_cidr),
    Function("ip", ("map",), "map", lambda cidr: opaque("ip", address=str(_network(cidr)[0]))),
    Function("prefixLength", ("map",), "int", lambda cidr: _network(cidr)[1]),
    Function("masked", ("map",), "map", _masked),
)
