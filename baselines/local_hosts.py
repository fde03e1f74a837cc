"""Host names that a server on this machine answers; others could be web pages of other sites that reach it."""

from __future__ import annotations

import ipaddress


def host_name(host: str) -> str:
    """Return the name in a Host header, without its port.

    Examples:
        >>> host_name("127.0.0.1:8000"), host_name("[::1]:8000"), host_name("Localhost")
        ('127.0.0.1', '::1', 'localhost')
    """
    name = host.partition("]")[0].lstrip("[") if host.startswith("[") else host.partition(":")[0]
    return name.lower()


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
