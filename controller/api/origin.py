"""Whether a call comes from a web page of somebody else.

A browser lets any page post to any address, a controller on the loopback of its user among them,
but says in `Origin` whose page it is. A page can also have its own name resolve to 127.0.0.1; then
`Origin` and `Host` agree, and only the name tells.
"""

from __future__ import annotations

from ipaddress import ip_address

SAFE = frozenset(("GET", "HEAD", "OPTIONS"))
DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}


def is_foreign(origin: bytes, host: bytes, *, loopback_only: bool) -> bool:
    """Whether the page at `origin` is not of the controller that was called as `host`.

    With `loopback_only`, no page is that was not loaded by a name of the loopback.

    >>> is_foreign(b"http://localhost:7464", b"localhost:7464", loopback_only=True)
    False
    >>> is_foreign(b"https://evil.example", b"localhost:7464", loopback_only=True)
    True
    >>> is_foreign(b"http://evil.example:7464", b"evil.example:7464", loopback_only=True)
    True
    """
    scheme, separator, place = origin.lower().partition(b"://")
    port = DEFAULT_PORTS.get(scheme, b"")
    own = host.lower().removesuffix(port)
    same = bool(separator) and bool(own) and place.removesuffix(port) == own
    return not same or (loopback_only and not is_loopback(_name(place.decode("latin-1"))))


def is_loopback(host: str) -> bool:
    """Whether the name or address is that of this machine, for itself alone.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _name(place: str) -> str:
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0]
