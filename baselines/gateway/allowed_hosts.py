"""Host names that a server on this machine answers; others could be web pages of other sites that reach it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence

HOST = re.compile(r"(?:\[(?P<ipv6>[^\[\]]*)\]|(?P<name>[^:\[\]]*))(?::\d*)?")


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port; empty for something else.

    Examples:
        >>> host_name("127.0.0.1:8000"), host_name("[::1]:8000"), host_name("Localhost"), host_name("a:1:b")
        ('127.0.0.1', '::1', 'localhost', '')
    """
    match = HOST.fullmatch(host.strip())
    return "" if match is None else (match["ipv6"] or match["name"] or "").lower()


def may_ask(headers: Sequence[str], answered: frozenset[str]) -> bool:
    """Return True if a request names a server by its Host headers: by one, and under a name that it answers.

    Args:
        headers: Values of all Host headers of the request.
        answered: Result of `hosts_of`.
    """
    return len(headers) < 2 and (not answered or host_name("".join(headers)) in answered)


def is_loopback(host: str) -> bool:
    """Return True if only this machine can connect to an address.

    Examples:
        >>> is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def hosts_of(host: str) -> frozenset[str]:
    """Return the Host names that a server bound to an address answers; empty (all) for an address of other machines."""
    return frozenset({"localhost", "127.0.0.1", "::1", host}) if is_loopback(host) else frozenset()
