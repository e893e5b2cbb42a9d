"""Access control: every request is admitted or refused once, before anything else reads it.

Which right a call needs depends on its method and path alone. Anything that is not listed here
needs the right to administer, so a route that is missing here is closed, not open.

A browser lets any page post to any address, a controller on the loopback of its user among them,
but says in `Origin` whose page it is. A page can also point its own name at 127.0.0.1; then
`Origin` and `Host` agree, a GET has no `Origin`, and only the name in `Host` gives it away.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Literal, NamedTuple

from controller.api.gate import audit
from controller.api.gate.audit import ANONYMOUS_HOLDER, Attempt
from controller.api.pages import assets
from controller.api.wire.problems import build_problem
from controller.api.wire.responses import Answer
from controller.service.permissions import Grant
from controller.service.tokens import Holder, TokenCache

Right = Literal["nothing", "a token", "read", "read all", "write", "forward", "administer"]

STREAMS_PREFIX = "/v1/streams/"
FORWARDED_NOTES = "/v1/forwarded-notes"
"""Where controllers post the notes that they forward; each request there shows its own token.

They are known by the secret that they share, which `SharedSecret` checks.
"""

OPEN_PATHS = assets.PAGE_PATHS | {assets.DOCS_PATH, "/healthz", "/readyz", "/openapi.json"}
"""The paths that need no token."""
ANY_TOKEN_CALLS = frozenset(
    (("GET", "/v1/streams"), ("GET", "/v1/overview"), ("GET", "/v1/access"))
)
"""What every token may do: list what it may read, and ask for its rights."""
RIGHTS_BY_PATH: dict[str, Right] = {
    "/metrics": "read all",
    "/v1/controllers": "read all",
    FORWARDED_NOTES: "forward",
}
"""The paths for which all methods need the same right."""
READER_CALLS = frozenset(
    (
        ("GET", ""),
        ("GET", "writers"),
        ("GET", "writers/*"),
        ("GET", "ledger"),
        ("GET", "changes"),
        ("GET", "history"),
        ("GET", "segments"),
        ("GET", "overview"),
        ("GET", "explain"),
        ("GET", "marks"),
        ("GET", "cut"),
        ("GET", "windows"),
        ("POST", "time-window"),
        ("POST", "segment-times"),
        ("GET", "reader-groups"),
        ("GET", "reader-groups/*"),
        ("PUT", "reader-groups/*/readers/*"),
        ("POST", "reader-groups/*/readers/*/offline"),
    )
)
"""The calls of readers: method, and path below the stream with a star for each name."""
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
LOOPBACK_HOSTS = frozenset(("127.0.0.1", "localhost"))
DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}


class Need(NamedTuple):
    """What a call needs, and on which stream if that matters."""

    right: Right
    stream: str = ""

    def is_met_by(self, grant: Grant) -> bool:
        """Whether the grant has the right; `writers` of a request are a matter of its body."""
        if self.right == "write":
            return grant.may_write(self.stream)
        if self.right == "read":
            return grant.may_read(self.stream)
        if self.right == "read all":
            return grant.may_read_all()
        return self.right in {"nothing", "a token"} or grant.may_administer()

    def __str__(self) -> str:
        named = self.right in {"read", "write"}
        return f"{self.right} stream {self.stream!r}" if named else self.right


def find_need(method: str, path: str) -> Need:
    """Return what a call needs.

    >>> str(find_need("GET", "/v1/streams/flights/marks"))
    "read stream 'flights'"
    >>> str(find_need("DELETE", "/v1/streams/flights")), str(find_need("GET", "/metrics"))
    ('administer', 'read all')
    """
    if path.startswith(STREAMS_PREFIX) and path != STREAMS_PREFIX:
        stream, *below = path.removeprefix(STREAMS_PREFIX).split("/")
        return Need(_find_right(method, below), stream)
    if path in OPEN_PATHS or path.startswith(assets.ASSETS_PATH):
        return Need("nothing")
    if path in RIGHTS_BY_PATH:
        return Need(RIGHTS_BY_PATH[path])
    if (method, path) in ANY_TOKEN_CALLS:
        return Need("a token")
    return Need("administer")


def _find_right(method: str, below: Sequence[str]) -> Right:
    if (method, below) == ("POST", ["notes"]):
        return "write"
    return "read" if (method, _mask_names(below)) in READER_CALLS else "administer"


def _mask_names(below: Sequence[str]) -> str:
    """Return a path with a star for each name; names stand at every second place."""
    return "/".join("*" if place % 2 else part for place, part in enumerate(below))


class RequestInfo(NamedTuple):
    """A request as it came: header names in lower case, `remote` the address that it came from."""

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    remote: str


class AccessDenied(Exception):
    """A request is refused as a whole; `problem` says why."""

    def __init__(self, problem: Answer) -> None:
        super().__init__(problem.status)
        self.problem = problem


class Gate:
    """Admits calls: all while no token is required, else those whose token has the right.

    One without tokens is called by the names of the loopback. Where its operator opened it to a
    network, it is called by any address, too, and by its `names`, if some are given.
    """

    def __init__(
        self,
        tokens: TokenCache | None = None,
        *,
        require: bool = False,
        names: Iterable[str] | None = None,
    ) -> None:
        """Require tokens once there are any, with `require` from the start."""
        self.tokens = tokens
        self._require = require
        self._names = None if names is None else frozenset(name.lower() for name in names)

    def is_token_required(self) -> bool:
        """Whether a call needs a token."""
        return self._require or (self.tokens is not None and self.tokens.has_any_ever())

    def admit(self, need: Need, info: RequestInfo) -> Holder:
        """Return who calls; raises `AccessDenied`. Every request comes through here."""
        authorization = origin = None
        host = None
        for name, value in info.headers:
            if name == b"authorization":
                # with two of them it is ambiguous which one counts
                authorization = value if authorization is None else b""
            elif name == b"origin":
                origin = value if origin is None else b""
            elif name == b"host":
                host = value
        if origin is not None:
            _check_origin(origin, host or b"", need, info)
        if need.right in {"nothing", "forward"}:
            return ANONYMOUS_HOLDER
        if not self.is_token_required():
            if host is not None and not self._is_own(_strip_port(host.decode("latin-1"))):
                audit.record_refusal(describe_attempt(need, info), "foreign_host")
                raise AccessDenied(build_problem(403, "foreign_host", self._describe_remedy()))
            return ANONYMOUS_HOLDER
        return self._holder(authorization or b"", need, info)

    def _is_own(self, host: str) -> bool:
        """Tell own names from foreign ones, which a page may have resolve to our address."""
        if is_loopback(host) or self._names is None:
            return is_loopback(host)
        return host.lower() in self._names or _is_address(host)

    def _describe_remedy(self) -> str:
        if self._names is None:
            return "without tokens, call this controller as localhost or by a loopback address"
        return "without tokens, call this controller by an address, or name it by --host-name"

    def _holder(self, authorization: bytes, need: Need, info: RequestInfo) -> Holder:
        """Refuse missing, malformed, unknown, expired, revoked tokens alike, to reveal nothing."""
        holder = self.tokens.holder(authorization) if self.tokens is not None else None
        if holder is None:
            audit.record_refusal(describe_attempt(need, info), "unauthenticated")
            sentence = "missing, expired or revoked token: send Authorization: Bearer nt_…"
            raise AccessDenied(build_problem(401, "unauthenticated", sentence))
        if not need.is_met_by(holder.grant):
            audit.record_refusal(describe_attempt(need, info), "forbidden", holder)
            sentence = f"this token does not give the right to {need}"
            raise AccessDenied(build_problem(403, "forbidden", sentence, right=need.right))
        return holder


def _check_origin(origin: bytes, host: bytes, need: Need, info: RequestInfo) -> None:
    if info.method not in SAFE_METHODS and is_foreign(origin, host):
        audit.record_refusal(describe_attempt(need, info), "foreign_origin")
        sentence = "the call comes from a web page of another origin"
        raise AccessDenied(build_problem(403, "foreign_origin", sentence))


def describe_attempt(need: Need, info: RequestInfo) -> Attempt:
    """Return what the log says of a call."""
    return Attempt(f"{info.method} {info.path}", need.stream, info.remote)


def is_foreign(origin: bytes, host: bytes) -> bool:
    """Whether the page at `origin` is not of the controller that was called as `host`.

    >>> is_foreign(b"http://localhost:7464", b"localhost:7464")
    False
    >>> is_foreign(b"https://evil.example", b"localhost:7464")
    True
    """
    scheme, separator, place = origin.lower().partition(b"://")
    port = DEFAULT_PORTS.get(scheme, b"")
    own = host.lower().removesuffix(port)
    return not (separator and own) or place.removesuffix(port) != own


def is_loopback(host: str) -> bool:
    """Whether the name or address is that of this machine, for itself alone.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() in LOOPBACK_HOSTS:  # to parse an address takes 3 µs
        return True
    return _is_address(host) and ip_address(host).is_loopback


def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _strip_port(place: str) -> str:
    if place.startswith("["):
        return place[1:].partition("]")[0]
    return place.partition(":")[0]
