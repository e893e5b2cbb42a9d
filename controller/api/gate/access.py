"""Admits or refuses each request before any other code reads it.

The method and path of a call decide its right; an unlisted call needs the right to administer.

A web page can send requests to a controller on the user's machine, with the page's origin as
`Origin`. If a page lets its own host name resolve to 127.0.0.1, `Origin` and `Host` agree, so
`Host` is checked as well.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from ipaddress import ip_address
from typing import Literal, NamedTuple

from controller.api.gate import audit
from controller.api.gate.audit import ANONYMOUS_HOLDER, Attempt, Outcome
from controller.api.pages import assets
from controller.api.wire.problems import build_problem
from controller.api.wire.responses import Answer
from controller.service.tokens import Holder, TokenCache
from noted_time.answers.permissions import Grant

Right = Literal[
    "nothing", "a token", "read", "read all", "write", "observe", "forward", "administer"
]

STREAMS_PREFIX = "/v1/streams/"
FORWARDED_PATH = "/v1/forwarded-notes"

OPEN_PATHS = assets.PAGE_PATHS | {assets.DOCS_PATH, "/healthz", "/readyz", "/openapi.json"}
ANY_TOKEN_CALLS = frozenset(
    (("GET", "/v1/streams"), ("GET", "/v1/overview"), ("GET", "/v1/access"))
)
RIGHTS_BY_PATH: dict[str, Right] = {
    "/metrics": "read all",
    "/v1/controllers": "read all",
    FORWARDED_PATH: "forward",
}
# The method, and the path below the stream with a star for each name.
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
        ("POST", "completeness"),
        ("POST", "time-window"),
        ("POST", "segment-times"),
        ("GET", "reader-groups"),
        ("GET", "reader-groups/*"),
        ("PUT", "reader-groups/*/readers/*"),
        ("POST", "reader-groups/*/readers/*/offline"),
    )
)
SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
LOOPBACK_HOSTS = frozenset(("127.0.0.1", "localhost"))
DEFAULT_PORTS = {b"http": b":80", b"https": b":443"}


class Need(NamedTuple):
    """The right that a call needs, and its stream, if any."""

    right: Right
    stream: str = ""

    def is_met_by(self, grant: Grant) -> bool:
        """Check all but the writers in a body."""
        if self.right == "write":
            return grant.may_write(self.stream)
        if self.right == "observe":
            return grant.may_observe(self.stream)
        if self.right == "read":
            return grant.may_read(self.stream)
        if self.right == "read all":
            return grant.may_read_all()
        return self.right in {"nothing", "a token"} or grant.may_administer()

    def __str__(self) -> str:
        is_of_stream = self.right in {"read", "write", "observe"}
        return f"{self.right} stream {self.stream!r}" if is_of_stream else self.right


def find_need(method: str, path: str) -> Need:
    """Return the right that a call needs.

    >>> str(find_need("GET", "/v1/streams/flights/marks"))
    "read stream 'flights'"
    """
    if path.startswith(STREAMS_PREFIX) and path != STREAMS_PREFIX:
        stream, *path_parts = path.removeprefix(STREAMS_PREFIX).split("/")
        return Need(_find_right(method, path_parts), stream)
    if path in OPEN_PATHS or path.startswith(assets.ASSETS_PATH):
        return Need("nothing")
    if path in RIGHTS_BY_PATH:
        return Need(RIGHTS_BY_PATH[path])
    if (method, path) in ANY_TOKEN_CALLS:
        return Need("a token")
    return Need("administer")


def _find_right(method: str, path_parts: Sequence[str]) -> Right:
    if (method, path_parts) == ("POST", ["notes"]):
        return "write"
    if (method, path_parts) == ("POST", ["event-time-form"]):
        return "observe"
    masked_parts = list(path_parts)
    for place in range(1, len(path_parts), 2):
        masked_parts[place] = "*"  # the name of a reader group, a writer, …
    masked_path = "/".join(masked_parts)
    return "read" if (method, masked_path) in READER_CALLS else "administer"


class AccessDenied(Exception):
    """The request is refused; `problem` is the answer."""

    def __init__(self, problem: Answer) -> None:
        super().__init__(problem.status)
        self.problem = problem


class RequestInfo(NamedTuple):
    """The request's head, and the right that it needs.

    Header names are in lower case, and `remote` is the caller's address.
    """

    method: str
    path: str
    headers: Sequence[tuple[bytes, bytes]]
    remote: str
    need: Need

    @property
    def attempt(self) -> Attempt:
        return Attempt(f"{self.method} {self.path}", self.need.stream, self.remote)

    def deny(
        self, outcome: Outcome, sentence: str, holder: Holder = ANONYMOUS_HOLDER
    ) -> AccessDenied:
        """Record the refusal, and return the error to raise."""
        audit.record_refusal(self.attempt, outcome, holder)
        if outcome == "unauthenticated":
            problem = build_problem(401, outcome, sentence)
        elif outcome == "forbidden":
            problem = build_problem(403, outcome, sentence, right=self.need.right)
        else:
            problem = build_problem(403, outcome, sentence)
        return AccessDenied(problem)


class Gate:
    """Admits all calls while no token is required, and otherwise calls whose token has the right.

    Without tokens, the `Host` header must be a loopback name or address, or with `names` one of
    these or any IP address.
    """

    def __init__(
        self,
        tokens: TokenCache | None = None,
        *,
        require: bool = False,
        names: Iterable[str] | None = None,
    ) -> None:
        """Require a token from the start if `require`, else once any token was created."""
        self.tokens = tokens
        self._require = require
        self._names = None if names is None else frozenset(name.lower() for name in names)

    def is_token_required(self) -> bool:
        return self._require or (self.tokens is not None and self.tokens.has_any_ever())

    def admit(self, info: RequestInfo) -> Holder:
        """Return the caller, or raise `AccessDenied`."""
        authorization = origin = None
        host = None
        for name, value in info.headers:
            if name == b"authorization":
                # two such headers are ambiguous
                authorization = value if authorization is None else b""
            elif name == b"origin":
                origin = value if origin is None else b""
            elif name == b"host":
                host = value
        is_safe = info.method in SAFE_METHODS
        if not (is_safe or origin is None) and is_foreign(origin, host or b""):
            raise info.deny("foreign_origin", "the call comes from a web page of another origin")
        if info.need.right in {"nothing", "forward"}:
            return ANONYMOUS_HOLDER
        if not self.is_token_required():
            if host is not None and not self._is_own(_strip_port(host.decode("latin-1"))):
                raise info.deny("foreign_host", self._describe_remedy())
            return ANONYMOUS_HOLDER
        return self._holder(authorization or b"", info)

    def _is_own(self, host: str) -> bool:
        if is_loopback(host) or self._names is None:
            return is_loopback(host)
        return host.lower() in self._names or _is_address(host)

    def _describe_remedy(self) -> str:
        if self._names is None:
            return "without tokens, the host must be localhost or a loopback address"
        return "without tokens, the host must be an IP address or a name in --host-name"

    def _holder(self, authorization: bytes, info: RequestInfo) -> Holder:
        """Answer all invalid tokens alike."""
        holder = self.tokens.holder(authorization) if self.tokens is not None else None
        if holder is None:
            sentence = "missing, expired or revoked token: send Authorization: Bearer nt_…"
            raise info.deny("unauthenticated", sentence)
        if not info.need.is_met_by(holder.grant):
            sentence = f"this token does not give the right to {info.need}"
            raise info.deny("forbidden", sentence, holder)
        return holder


def is_foreign(origin: bytes, host: bytes) -> bool:
    """Return whether a page at `origin` does not belong to the controller called as `host`.

    >>> is_foreign(b"http://localhost:7464", b"localhost:7464")
    False
    """
    scheme, separator, place = origin.lower().partition(b"://")
    port = DEFAULT_PORTS.get(scheme, b"")
    own_place = host.lower().removesuffix(port)
    return not (separator and own_place) or place.removesuffix(port) != own_place


def is_loopback(host: str) -> bool:
    """Return whether the name or address reaches only this machine.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() in LOOPBACK_HOSTS:  # parsing takes 3 µs
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
