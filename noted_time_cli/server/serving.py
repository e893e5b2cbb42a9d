"""`noted-time serve` and `migrate`; the server is imported when they run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
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
from noted_time_cli.terminal.flags import command, refuse_options
from noted_time_cli.terminal.options import DEFAULT_PORT
from noted_time_cli.terminal.output import echo

if TYPE_CHECKING:
    from controller.api.gate.access import Gate
    from controller.api.sockets.server import ListenAddress

DEFAULT_LIMITS = Limits()

OPEN_RIGHTS = "read, note, seal and remove every stream"


def _option(variable: str, text: str, **more: Any) -> Any:  # noqa: ANN401 - as typer's
    name = f"--{variable.lower().replace('_', '-')}"
    return typer.Option(name, envvar=f"NOTED_TIME_{variable}", help=text, **more)


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """Fields of `Limits` as flags."""

    streams: Annotated[
        int, _option("MAX_STREAMS", "Maximum number of streams.", metavar="N", min=1)
    ] = DEFAULT_LIMITS.streams
    writers: Annotated[
        int, _option("MAX_WRITERS", "Maximum number of writers of a stream.", metavar="N", min=1)
    ] = DEFAULT_LIMITS.writers
    waiting_notes: Annotated[
        int,
        _option(
            "MAX_WAITING_NOTES",
            "Maximum number of notes waiting for their commit. More are refused (503) and retried.",
            metavar="N",
            min=1000,
        ),
    ] = DEFAULT_LIMITS.waiting_notes
    long_polls: Annotated[
        int,
        _option(
            "MAX_LONG_POLLS",
            "Maximum number of readers waiting for marks. More are refused (503) and retry.",
            metavar="N",
            min=0,
        ),
    ] = DEFAULT_LIMITS.long_polls


@command
def serve(  # noqa: PLR0913 - one parameter for each flag
    context: typer.Context,
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
            "URL where other controllers of the database reach this one. Default: the address "
            "to bind to, or the machine's name if --host is a wildcard address.",
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
        bool, _option("INSECURE", "Accept calls without a token from the network.")
    ] = False,
    host_name: Annotated[
        str,
        _option(
            "HOST_NAME",
            "Additional host names that --insecure accepts in requests.",
            metavar="NAME,…",
        ),
    ] = "",
    limits: ServeLimits,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"],
        _option(
            "LOG_LEVEL", "The lowest level to log: debug, info, warning or error.", metavar="LEVEL"
        ),
    ] = "info",
    log_format: Annotated[
        Literal["auto", "console", "json"],
        _option(
            "LOG_FORMAT", "console or json; auto is json without a terminal.", metavar="FORMAT"
        ),
    ] = "auto",
) -> None:
    """Run the controller.

    If the database does not exist, it is created. If it is of an older version, run `noted-time
    migrate` first.

    Once a token exists, every call needs a token. Before that, only this machine may call.

    Try it:  noted-time serve --database sqlite:///noted-time.db

    Then, in another terminal:  noted-time stream create flights
    """
    import structlog

    from controller.api.app import create_app
    from controller.api.gate.access import Gate
    from controller.api.sockets.server import ListenAddress, normalize_url
    from controller.api.sockets.server import serve as serve_app
    from controller.service.controller import Controller
    from controller.service.telemetry import logs
    from controller.service.tokens import TokenCache
    from controller.store.migrate import is_new
    from controller.store.migrate import migrate as migrate_database
    from controller.store.open import exclusive_lock, open_checked_store

    if not insecure:
        refuse_options(context, "without --insecure", "host_name")
    if require_token:
        refuse_options(context, "with --require-token", "insecure")
    logs.configure(log_level, log_format)
    log = structlog.get_logger()
    place = ListenAddress(host, port, tls_cert, tls_key)
    place.check_certificate()
    place.bind().close()  # a mistake in the address must not leave a new database behind
    advertise = normalize_url(advertise) if advertise else None
    names = _list_names(place, advertise, host_name) if insecure else None
    is_new_database = is_new(database)
    if is_new_database:  # a refused start must not leave a database behind
        _check_address(Gate(require=require_token, names=names), place, database, names)
        migrate_database(database)
    log.info("starting", database=describe_database(database), created=is_new_database)
    with open_tokens(database) as tokens:
        cache = TokenCache(tokens)
        cache.refresh()
        gate = Gate(cache, require=require_token, names=names)
        _check_address(gate, place, database, names)
        _warn_of_address(gate, place, names)
        store = open_checked_store(database)
        with exclusive_lock(database):
            controller = Controller(store, limits=Limits(**asdict(limits)))
            serve_app(create_app(controller, gate), controller, place, advertise)


@command
def migrate(database: Database = DEFAULT_DATABASE) -> None:
    """Upgrade the database to the tables of this version, or create it.

    Controllers of the previous version keep serving a PostgreSQL database. A database of a later
    version is not changed.

    Try it:  noted-time migrate --database sqlite:///noted-time.db
    """
    from controller.store.migrate import migrate as migrate_database
    from controller.store.migrate import read_revision
    from controller.store.schema import SCHEMA_REVISION

    migrate_database(database)
    revision = read_revision(database)
    place = "the current schema"
    if revision != SCHEMA_REVISION:
        current = f"{SCHEMA_REVISION}, the revision of this version"
        place = f"{revision}, later than {current}: nothing to do"
    echo(f"{hide_password(database)} is at {place}.")


def _list_names(place: ListenAddress, advertise: str | None, host_name: str) -> list[str]:
    own_name = urlsplit(advertise).hostname if advertise else getfqdn()
    names = [place.host, own_name, *(name.strip() for name in host_name.split(","))]
    return sorted({name for name in names if name})


def _check_address(
    gate: Gate, place: ListenAddress, database: str, insecure_names: Sequence[str] | None
) -> None:
    """Raise `Rejected` if the network can reach the controller and it requires no token."""
    from controller.api.gate.access import is_loopback

    if is_loopback(place.host) or gate.is_token_required() or insecure_names is not None:
        return
    raise Rejected(
        f"{place.host} can be reached by others, and there is no token: create one with "
        f"{add_database_option('migrate', database)} and "
        f"{add_database_option('token create --scope admin', database)}, or pass "
        "--insecure to admit every call"
    )


def _warn_of_address(gate: Gate, place: ListenAddress, names: Sequence[str] | None) -> None:
    """Warn if the network needs no token, or could read tokens."""
    import structlog

    from controller.api.gate.access import is_loopback

    log = structlog.get_logger()
    if is_loopback(place.host):
        return
    if not gate.is_token_required():
        log.warning("open_to_everybody", host=place.host, may=OPEN_RIGHTS, names=names)
    elif place.tls_cert is None:
        log.warning("tokens_in_clear", host=place.host, remedy="--tls-cert and --tls-key")
