"""Serves the app by uvicorn, with a shutdown that answers every request."""

from __future__ import annotations

import asyncio
import gc
import os
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from signal import SIG_DFL, SIG_IGN, SIGINT, SIGTERM, signal
from socket import AF_INET, AF_INET6, SO_REUSEADDR, SOL_SOCKET, getfqdn, socket
from types import FrameType
from typing import TYPE_CHECKING

import httpx
import structlog
import uvicorn

from controller.api.sockets.certificate import watch_certificate
from controller.api.sockets.connections import Connection
from controller.service.controller import Controller
from noted_time import Rejected, Unreadable

if TYPE_CHECKING:
    from starlette.types import ASGIApp

log = structlog.get_logger()

GRACE_S = 10
FILES_EVERY_S = 1.0
FILES_AGAIN_S = 60.0

NO_SNIFFING = [("x-content-type-options", "nosniff")]  # no browser guesses a media type

COMMITS_WAIT_S = 0.001


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """The address to listen on, and the PEM files for TLS."""

    host: str
    port: int
    tls_cert: Path | None = None
    tls_key: Path | None = None

    def check_certificate(self) -> None:
        if self.tls_cert is None and self.tls_key is None:
            return
        if self.tls_cert is None or self.tls_key is None:
            raise Rejected("TLS requires a certificate and its key: use --tls-cert and --tls-key")
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                self.tls_cert, self.tls_key, password=lambda: ""
            )
        except OSError as error:
            files = f"{self.tls_cert} and {self.tls_key}"
            raise Rejected(f"{files} are not a certificate and its key: {error}") from error

    def bind(self) -> socket:
        """Return a bound socket, or raise `Rejected`."""
        bound = socket(AF_INET6 if ":" in self.host else AF_INET)
        bound.setsockopt(SOL_SOCKET, SO_REUSEADDR, 1)
        try:
            bound.bind((self.host, self.port))
        except OSError as error:
            bound.close()
            why = f"cannot listen on {self.host}:{self.port}: {error.strerror}"
            raise Rejected(f"{why}; choose another --port, or --host") from error
        return bound


async def _watch_files() -> None:
    """Log while no file can be opened, because new connections are then closed."""
    while True:
        await asyncio.sleep(FILES_EVERY_S)
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            log.warning("no_more_files", error=error.strerror)
            await asyncio.sleep(FILES_AGAIN_S)


class Server(uvicorn.Server):
    """Answers long polls and releases its streams before it ends.

    It ends at a stop signal, or if a pooler gives the controller's session to others. uvicorn waits
    for open requests before it ends the app's lifespan.
    """

    def __init__(self, config: uvicorn.Config, controller: Controller) -> None:
        super().__init__(config)
        self._controller = controller
        self._loop: asyncio.AbstractEventLoop | None = None

    async def startup(self, sockets: list[socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._watching = [self._loop.create_task(_watch_files(), name="files")]
        config = self.config
        expiry = self._controller.metrics.certificate_expiry
        if config.ssl and config.ssl_certfile and config.ssl_keyfile:
            cert = Path(config.ssl_certfile)
            key = Path(config.ssl_keyfile)
            certificate_watch = watch_certificate(config.ssl, cert, key, expiry)
            self._watching.append(self._loop.create_task(certificate_watch, name="certificate"))
        await super().startup(sockets)
        for server in self.servers:
            for listening_socket in server.sockets:
                log.info("serving", url=_build_url(self.config, listening_socket))

    async def on_tick(self, counter: int) -> bool:
        if self._controller.shared is not None:
            self._controller.prepare_to_stop()
            return True
        return await super().on_tick(counter)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Keep uvicorn from raising a signal again, which kills the interpreter at its exit."""
        for sig in (SIGTERM, SIGINT):
            signal(sig, self.handle_exit)
        try:
            yield
        finally:
            for sig in (SIGTERM, SIGINT):
                signal(sig, SIG_DFL if self.force_exit else SIG_IGN)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._controller.prepare_to_stop)
        super().handle_exit(sig, frame)


def serve(
    app: ASGIApp, controller: Controller, place: ListenAddress, advertise: str | None = None
) -> None:
    """Serve until SIGTERM or SIGINT, and answer every accepted request.

    Raises `Rejected`, and `StoreShared` if a pooler gave the controller's session to others. Other
    controllers reach this one at the URL `advertise`.
    """
    _tune()
    config = uvicorn.Config(
        app,
        host=place.host,
        port=place.port,
        ssl_certfile=place.tls_cert,
        ssl_keyfile=place.tls_key,
        loop="auto",
        http=Connection,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        headers=NO_SNIFFING,
        proxy_headers=False,  # no call needs the client's address
        timeout_keep_alive=75,
        timeout_graceful_shutdown=GRACE_S,
        backlog=4096,
    )
    listening_socket = place.bind()
    controller.register_url(advertise or _find_advertised_url(config, listening_socket))
    Server(config, controller).run([listening_socket])
    if controller.shared is not None:
        raise controller.shared


def normalize_url(url: str) -> str:
    """Return this controller's URL without a trailing slash, or raise `Unreadable`.

    >>> normalize_url("https://replica-1.internal:7464/")
    'https://replica-1.internal:7464'
    """
    if "@" in url:  # the URL may contain a password
        raise Unreadable(
            "--advertise must not contain a user or password: leave out the part before the @"
        )
    try:
        parts = httpx.URL(url)
    except httpx.InvalidURL as error:
        raise Unreadable(f"--advertise {url!r} is not a URL: {error}") from error
    has_host = parts.scheme in {"http", "https"} and parts.host
    if not has_host or parts.query or parts.fragment:
        raise Unreadable(f"--advertise {url!r} must have the form http://host:port")
    return url.rstrip("/")


def _tune() -> None:
    # a full collection over 100,000 members takes 160 ms
    gc.freeze()
    gc.set_threshold(50_000, 50, 50)
    # a commit requests the interpreter's lock after each statement
    sys.setswitchinterval(COMMITS_WAIT_S)


def _find_advertised_url(config: uvicorn.Config, listening_socket: socket) -> str:
    url = _build_url(config, listening_socket)
    for everywhere in ("//0.0.0.0:", "//[::]:"):
        url = url.replace(everywhere, f"//{getfqdn()}:")
    return url


def _build_url(config: uvicorn.Config, listening_socket: socket) -> str:
    address, port = listening_socket.getsockname()[:2]
    host = f"[{address}]" if ":" in address else address
    return f"{'https' if config.is_ssl else 'http'}://{host}:{port}"
