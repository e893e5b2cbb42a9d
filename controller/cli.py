"""The command line: `noted-time serve`, `migrate`, `token`, `demo`."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path  # noqa: TC003 - typer reads it
from typing import TYPE_CHECKING, Annotated, Any, Literal

import structlog
import typer

from controller.api.access import Gate, is_loopback
from controller.api.server import Place
from controller.api.server import serve as serve_app
from controller.service import logs, tokens
from controller.service.access import Grant
from controller.service.controller import Controller
from controller.service.limits import Limits
from controller.service.tokens import TokenCache
from controller.store import migrate as migrations
from controller.store.open import exclusive_lock, open_store, open_tokens
from controller.store.port import StoreUnavailable
from noted_time import NotedTimeError, Rejected

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controller.store.tokens import TokenRecord, Tokens

log = structlog.get_logger()

DEFAULT_DATABASE = "sqlite:///noted-time.db"
DEFAULT_PORT = 7464
NONE: list[str] = []
LIMITS = Limits()

app = typer.Typer(
    name="noted-time",
    help="Watermarks that the writers vouch for.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
demo = typer.Typer(help="Examples on real data that run here and now.", no_args_is_help=True)
app.add_typer(demo, name="demo")
token = typer.Typer(help="Who may note, read and administer.", no_args_is_help=True)
app.add_typer(token, name="token")

Database = Annotated[
    str,
    typer.Option(
        envvar="NOTED_TIME_DATABASE",
        help="Where notes and marks are kept: sqlite:///FILE (four slashes for an absolute path) "
        "or postgresql://USER@HOST/DATABASE.",
    ),
]


@app.command()
def serve(  # noqa: PLR0913 - one parameter for each flag
    *,
    database: Database = DEFAULT_DATABASE,
    host: Annotated[
        str, typer.Option(envvar="NOTED_TIME_HOST", help="Address to bind to; loopback by default.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(envvar="NOTED_TIME_PORT", min=0, max=65535, help="0 picks a free one.")
    ] = DEFAULT_PORT,
    advertise: Annotated[
        str | None,
        typer.Option(
            envvar="NOTED_TIME_ADVERTISE",
            metavar="URL",
            help="Where other controllers on the database reach this one; by default where it "
            "listens, by the machine's name if that is everywhere.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None,
        typer.Option(envvar="NOTED_TIME_TLS_CERT", help="Certificate chain (PEM), to serve HTTPS."),
    ] = None,
    tls_key: Annotated[
        Path | None, typer.Option(envvar="NOTED_TIME_TLS_KEY", help="Its private key (PEM).")
    ] = None,
    require_token: Annotated[
        bool,
        typer.Option(
            "--require-token",
            envvar="NOTED_TIME_REQUIRE_TOKEN",
            help="Ask for tokens even while there is none yet.",
        ),
    ] = False,
    insecure: Annotated[
        bool,
        typer.Option(
            "--insecure",
            envvar="NOTED_TIME_INSECURE",
            help="Let everybody who reaches the address note, read and remove, without tokens.",
        ),
    ] = False,
    max_streams: Annotated[
        int, typer.Option(envvar="NOTED_TIME_MAX_STREAMS", min=1, help="More are refused.")
    ] = LIMITS.streams,
    max_writers: Annotated[
        int,
        typer.Option(
            envvar="NOTED_TIME_MAX_WRITERS", min=1, help="Of one stream; notes of more are refused."
        ),
    ] = LIMITS.writers,
    max_waiting_notes: Annotated[
        int,
        typer.Option(
            envvar="NOTED_TIME_MAX_WAITING_NOTES",
            min=1000,
            help="Waiting for their commit; beyond that writers are refused (503) and retry.",
        ),
    ] = LIMITS.waiting_notes,
    max_long_polls: Annotated[
        int,
        typer.Option(
            envvar="NOTED_TIME_MAX_LONG_POLLS",
            min=0,
            help="Readers waiting for marks; more are refused (503) and retry.",
        ),
    ] = LIMITS.long_polls,
    log_level: Annotated[
        Literal["debug", "info", "warning", "error"], typer.Option(envvar="NOTED_TIME_LOG_LEVEL")
    ] = "info",
    log_format: Annotated[
        logs.Format, typer.Option(envvar="NOTED_TIME_LOG_FORMAT", help="auto: JSON off a terminal.")
    ] = "auto",
) -> None:
    """Run the controller.

    A database that does not exist yet is made; one of an older version is left alone until
    `noted-time migrate`.

    Once there is a token every call needs one; without any, only this machine may call.

    Try it:  curl -X PUT http://127.0.0.1:7464/v1/streams/flights
    """
    logs.configure(log_level, log_format)
    log.info("starting", database=_without_password(database))
    with _told_plainly():
        place = Place(host, port, tls_cert, tls_key)
        place.check_certificate()
        with _tokens_of(database) as kept, exclusive_lock(database):
            cache = TokenCache(kept)
            cache.refresh()
            gate = Gate(cache, require=require_token, insecure=insecure)
            _check_address(gate, place, insecure=insecure)
            limits = Limits(
                streams=max_streams,
                writers=max_writers,
                waiting_notes=max_waiting_notes,
                long_polls=max_long_polls,
            )
            serve_app(Controller(open_store(database), limits=limits), gate, place, advertise)


@app.command()
def migrate(database: Database = DEFAULT_DATABASE) -> None:
    """Bring the database to this version's tables, making it where there is none."""
    with _told_plainly():
        migrations.migrate(database)
    typer.echo(f"{_without_password(database)} is at the current schema.")


@token.command()
def create(  # noqa: PLR0913 - one parameter for each flag
    *,
    scope: Annotated[list[str], typer.Option(help="admin, write or read; several may be given.")],
    stream: Annotated[
        list[str], typer.Option(help="Stream to write or read; * stands for anything. All if none.")
    ] = NONE,
    writer: Annotated[
        list[str], typer.Option(help="Writer that may be noted for, likewise. All if none.")
    ] = NONE,
    expires_in: Annotated[
        str | None, typer.Option(help="90d, 12h, 30m or 45s; by default the token never expires.")
    ] = None,
    label: Annotated[str, typer.Option(help="What it is for, to be known by in the list.")] = "",
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Make a token and show it, this once; a running controller knows it within seconds.

    Try it:  noted-time token create --scope write --stream flights --writer UA --expires-in 90d
    """
    with _told_plainly(), _tokens_of(database) as kept:
        grant = Grant.of(scope, stream, writer)
        lifetime_ms = None if expires_in is None else tokens.period_ms(expires_in)
        shown, record = tokens.mint(grant, label=label, now_ms=_now(), lifetime_ms=lifetime_ms)
        kept.add(record)
    typer.echo(f"Token {record.id}; it is shown only now:", err=True)
    typer.echo(shown)


@token.command(name="list")
def list_tokens(database: Database = DEFAULT_DATABASE) -> None:
    """List the tokens: what each lets its holder do, never the token itself."""
    with _told_plainly(), _tokens_of(database) as kept:
        now = _now()
        for record in kept.all():
            typer.echo("  ".join(_told(record, now)))


@token.command()
def revoke(
    token_id: Annotated[
        str, typer.Argument(metavar="ID", help="As `noted-time token list` has it.")
    ],
    database: Database = DEFAULT_DATABASE,
) -> None:
    """Revoke a token for good; every controller on the database refuses it within seconds."""
    with _told_plainly(), _tokens_of(database) as kept:
        if token_id not in {record.id for record in kept.all()}:
            raise Rejected(f"there is no token {token_id[:40]!r}: see `noted-time token list`")
        done = kept.revoke(token_id, _now())
    typer.echo(f"Token {token_id} is revoked{'' if done else ' already'}.")


@demo.command(
    name="flights",
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    add_help_option=False,
)
def flights(context: typer.Context) -> None:
    """Replay a month of real flights: rows lost and latency, noted time against guessed delays."""
    with _told_plainly():
        command = _example("examples.flights.cli").app
    command(context.args, prog_name="noted-time demo flights")


def _example(name: str) -> Any:  # noqa: ANN401 - a module
    """Return a module of the examples, by name as they lie above the controller."""
    try:
        return import_module(name)
    except ModuleNotFoundError as missing:
        raise Rejected(
            f"the examples are not installed ({missing.name} is missing): "
            "clone the repository and run `./run demo` in it"
        ) from missing


@contextmanager
def _tokens_of(database: str) -> Iterator[Tokens]:
    """Open the tokens of a database, making it where there is none."""
    migrations.make_where_new(database)
    with closing(open_tokens(database)) as kept:
        yield kept


def _check_address(gate: Gate, place: Place, *, insecure: bool) -> None:
    """Raise `Rejected` where everybody on the network could move the watermark of every stream."""
    if is_loopback(place.host):
        return
    if not (gate.asks() or insecure):
        raise Rejected(
            f"{place.host} can be reached by others, and there is no token: make one with "
            "`noted-time token create --scope admin`, or say --insecure to admit every call"
        )
    if not gate.asks():
        log.warning("open_to_everybody", host=place.host)
    elif place.tls_cert is None:
        log.warning("tokens_in_clear", host=place.host, remedy="--tls-cert and --tls-key")


def _told(record: TokenRecord, now_ms: int) -> list[str]:
    """Return the columns of a token in the list."""
    grant = Grant.from_scopes(record.scopes)
    return [record.id, _state(record, now_ms), f"made {_day(record.created_at)}", str(grant)] + (
        [record.label] if record.label else []
    )


def _state(record: TokenRecord, now_ms: int) -> str:
    if record.revoked_at is not None:
        return f"revoked {_day(record.revoked_at)}"
    if record.expires_at is None:
        return "valid"
    word = "expired" if record.expires_at <= now_ms else "valid until"
    return f"{word} {_day(record.expires_at)}"


def _day(unix_ms: int) -> str:
    return f"{datetime.fromtimestamp(unix_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}Z"


def _now() -> int:
    return time.time_ns() // 1_000_000


def _without_password(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    _, at, place = rest.rpartition("@")
    return f"{scheme}{separator}***@{place}" if at else url


@contextmanager
def _told_plainly() -> Iterator[None]:
    """Say what went wrong in a sentence, and end with status 1."""
    try:
        yield
    except (StoreUnavailable, NotedTimeError) as error:
        typer.echo(f"noted-time: {error}", err=True)
        raise typer.Exit(1) from error


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
