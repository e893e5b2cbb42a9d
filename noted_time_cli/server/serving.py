"""`noted-time serve` and `migrate`: what runs a controller in this process.

The server and the database are imported when a command needs them, which takes a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import getfqdn
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from controller.service.limits import Limits
from noted_time import Rejected
from noted_time_cli.server.tokens import (
    DEFAULT_DATABASE,
    Database,
    add_database_option,
    describe_database,
    hide_password,
    open_tokens,
)
from noted_time_cli.terminal.flags import command
from noted_time_cli.terminal.options import DEFAULT_PORT
from noted_time_cli.terminal.output import echo

if TYPE_CHECKING:
    from controller.api.gate.access import Gate
    from controller.api.sockets.server import ListenAddress

DEFAULT_LIMITS = Limits()

OPEN_RIGHTS = "read, note, seal and remove every stream"


def _option(variable: str, text: str, **more: Any) -> Any:  # noqa: ANN401 - as typer's
    """Return an option that an environment variable may set, too."""
    name = f"--{variable.lower().replace('_', '-')}"
    return typer.Option(name, envvar=f"NOTED_TIME_{variable}", help=text, **more)


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """How much one controller takes on: what it has of `Limits`."""

    max_streams: Annotated[int, _option("MAX_STREAMS", "More are refused.", metavar="N", min=1)] = (
        DEFAULT_LIMITS.streams
    )
    max_writers: Annotated[
        int, _option("MAX_WRITERS", "Of one stream; notes of more are refused.", metavar="N", min=1)
    ] = DEFAULT_LIMITS.writers
    max_waiting_notes: Annotated[
        int,
        _option(
            "MAX_WAITING_NOTES",
            "Waiting for their commit; beyond that writers are refused (503) and retry.",
            metavar="N",
            min=1000,
        ),
    ] = DEFAULT_LIMITS.waiting_notes
    max_long_polls: Annotated[
        int,
        _option(
            "MAX_LONG_POLLS",
            "Readers waiting for marks; more are refused (503) and retry.",
            metavar="N",
            min=0,
        ),
    ] = DEFAULT_LIMITS.long_polls

    @property
    def limits(self) -> Limits:
        """What the controller is given."""
        return Limits(
            streams=self.max_streams,
            writers=self.max_writers,
            waiting_notes=self.max_waiting_notes,
            long_polls=self.max_long_polls,
        )


@command
def serve(  # noqa: PLR0913 - one parameter for each flag
    *,
    database: Database = DEFAULT_DATABASE,
    host: Annotated[str, _option("HOST", "Address to bind to; loopback by default.")] = "127.0.0.1",
    port: Annotated[
        int, _option("PORT", "Port to bind to; 0 picks a free one.", metavar="N", min=0, max=65535)
    ] = DEFAULT_PORT,
    advertise: Annotated[
        str | None,
        _option(
            "ADVERTISE",
            "URL by which other controllers on the database reach this one; by default where it "
            "listens, with the machine's name if that is every address.",
            metavar="URL",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, _option("TLS_CERT", "Certificate chain (PEM), to serve HTTPS.")
    ] = None,
    tls_key: Annotated[Path | None, _option("TLS_KEY", "Its private key (PEM).")] = None,
    require_token: Annotated[
        bool, _option("REQUIRE_TOKEN", "Require tokens even before the first one is created.")
    ] = False,
    insecure: Annotated[
        bool, _option("INSECURE", "Let everyone who can reach the address note, read and remove.")
    ] = False,
    host_name: Annotated[
        str,
        _option(
            "HOST_NAME",
            "By which names --insecure is called, beside addresses and that of --advertise.",
            metavar="NAME,…",
        ),
    ] = "",
    most: ServeLimits,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        _option(
            "LOG_LEVEL", "The lowest level to log: debug, info, warning or error.", metavar="LEVEL"
        ),
    ] = "info",
    log_format: Annotated[
        Literal["auto", "console", "json"],
        _option(
            "LOG_FORMAT",
            "console or json; auto is json where there is no terminal.",
            metavar="FORMAT",
        ),
    ] = "auto",
) -> None:
    """Run the controller.

    A database that does not exist yet is created; one of an older version is left alone until
    `noted-time migrate`. For a trial that keeps nothing, name a file in /tmp or /dev/shm.

    Once a token exists, every call needs one; before, only this machine may call.

    Try it:  noted-time serve --database sqlite:///noted-time.db

    Then, in another terminal:  noted-time stream create flights
    """
    import structlog

    from controller.api.app import create_app
    from controller.api.gate.access import Gate
    from controller.api.sockets.server import ListenAddress
    from controller.api.sockets.server import serve as serve_app
    from controller.service.controller import Controller
    from controller.service.telemetry import logs
    from controller.service.tokens import TokenCache
    from controller.store.migrate import create_if_new
    from controller.store.open import exclusive_lock, open_store

    logs.configure(log_level, log_format)
    log = structlog.get_logger()
    place = ListenAddress(host, port, tls_cert, tls_key)
    place.check_certificate()
    created = create_if_new(database)
    log.info("starting", database=describe_database(database), created=created)
    with open_tokens(database) as kept, exclusive_lock(database):
        cache = TokenCache(kept)
        cache.refresh()
        names = _list_names(place, advertise, host_name) if insecure else None
        gate = Gate(cache, require=require_token, names=names)
        _check_address(gate, place, database, names)
        controller = Controller(open_store(database), limits=most.limits)
        serve_app(create_app(controller, gate), controller, place, advertise)


@command
def migrate(database: Database = DEFAULT_DATABASE) -> None:
    """Bring the database to this version's tables, or create it.

    Controllers of the version before continue to serve a PostgreSQL database meanwhile and after
    it. A database of a later version is left as it is.

    Try it:  noted-time migrate --database sqlite:///noted-time.db
    """
    from controller.store.migrate import migrate as migrate_database
    from controller.store.migrate import read_revision
    from controller.store.schema import SCHEMA_REVISION

    migrate_database(database)
    found = read_revision(database)
    later = f"{found}, later than {SCHEMA_REVISION}, with which this version works: nothing to do"
    at = "the current schema" if found == SCHEMA_REVISION else later
    echo(f"{hide_password(database)} is at {at}.")


def _list_names(place: ListenAddress, advertise: str | None, host_name: str) -> list[str]:
    """Return the names by which others call an open controller; raises `Rejected`."""
    from controller.api.sockets.server import normalize_url

    own = urlsplit(normalize_url(advertise)).hostname if advertise else getfqdn()
    given = (each.strip() for each in host_name.split(","))
    return sorted({each for each in (place.host, own, *given) if each})


def _check_address(
    gate: Gate, place: ListenAddress, database: str, names: Sequence[str] | None = None
) -> None:
    """Raise `Rejected` if anyone on the network could move the watermark of every stream."""
    import structlog

    from controller.api.gate.access import is_loopback

    log = structlog.get_logger()
    if is_loopback(place.host):
        return
    if not gate.is_token_required() and names is None:
        raise Rejected(
            f"{place.host} can be reached by others, and there is no token: create one with "
            f"{add_database_option('noted-time token create --scope admin', database)}, or pass "
            "--insecure to admit every call"
        )
    if not gate.is_token_required():
        log.warning("open_to_everybody", host=place.host, may=OPEN_RIGHTS, names=names)
    elif place.tls_cert is None:
        log.warning("tokens_in_clear", host=place.host, remedy="--tls-cert and --tls-key")
