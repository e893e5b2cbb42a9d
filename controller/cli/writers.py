"""The commands that say who holds the watermark, and go on without a writer or wait for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.api_client import ApiClient, connected, stream_path, writer_path
from controller.cli.options import (
    DEFAULT_URL,
    NONE,
    AsJson,
    Domain,
    Limit,
    Stream,
    Token,
    Url,
    Writer,
    Yes,
)
from controller.cli.output import (
    confirm,
    print_json,
    print_table,
    say,
    shown_position,
    told_plainly,
)
from controller.cli.times import shown_time
from noted_time.duration import duration_ms, shown_duration

Json = dict[str, Any]


def explain(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    *,
    domain: Domain = None,
    exclude: Annotated[
        list[str],
        typer.Option(
            metavar="WRITER",
            show_default=False,
            help="What if time went on without it? Changes nothing; several may be given.",
        ),
    ] = NONE,
    writer_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default=False,
            help="What if this were the writers' timeout? Changes nothing.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Say why the watermark is not advancing: which writers hold it, since when, and what if not.

    Try it:  noted-time explain flights --exclude UA
    """
    with told_plainly(), connected(url, token) as client:
        timeout_ms = None if writer_timeout is None else duration_ms(writer_timeout)
        query = {"domain": domain, "exclude": exclude, "writer_timeout_ms": timeout_ms}
        found = client.ask("GET", stream_path(stream, "explain"), query=query)
    if as_json:
        print_json(found)
        return
    typer.echo(_decided(stream, found))
    if found["waiting_for"]:
        columns = ("writer", "time", "held for", "times out in", "lower without it")
        print_table(columns, [_holder(each, found) for each in found["waiting_for"]])
    if exclude or writer_timeout:
        typer.echo(_would(found))


def writers(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    writer: Annotated[
        str | None, typer.Argument(metavar="WRITER", show_default=False, help="Only this one.")
    ] = None,
    *,
    limit: Limit = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List the writers of a stream, those that hold the watermark first; or show one of them.

    Try it:  noted-time writers flights --limit 10
    """
    with told_plainly(), connected(url, token) as client:
        if writer is None:
            path = stream_path(stream, "writers")
            found = client.rows(path, "writers", cursor="start", limit=limit, query={})
        else:
            found = client.ask("GET", writer_path(stream, writer))
    if as_json:
        print_json(found)
        return
    _print_writers(found["writers"] if writer is None else [found])
    if writer is None and found["next"] is not None:
        say(f"There are more than these {limit}: see --limit.")


def remove(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    writer: Writer,
    *,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Go on without a writer, from its last position; shows first what would follow, and asks.

    The ledger keeps the reason. The writer becomes a member again when it notes.

    Try it:  noted-time remove flights UA
    """
    with told_plainly(), connected(url, token) as client:
        client.ask("GET", writer_path(stream, writer))
        for line in _dry_run(client, stream, writer):
            say(line)
        confirm(f"Go on without {writer}?", yes=yes)
        removed = client.ask("DELETE", writer_path(stream, writer))
    if as_json:
        print_json(removed)
    else:
        say(f"{writer} is removed from {stream}, at position {_position(removed)}.")


def hold(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    writer: Writer,
    *,
    duration: Annotated[
        str | None,
        typer.Option("--for", metavar="DURATION", show_default=False, help="As 90m or 1h."),
    ] = None,
    release: Annotated[
        bool, typer.Option("--release", help="End the hold: its timeout counts again.")
    ] = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Wait for a writer for so long, whatever its timeout: while it is repaired, say.

    Try it:  noted-time hold flights UA --for 90m
    """
    if (duration is None) is not release:
        raise typer.BadParameter("say either --for DURATION or --release")
    with told_plainly(), connected(url, token) as client:
        path = writer_path(stream, writer, "hold")
        if duration is None:
            answered = client.ask("DELETE", path)
        else:
            answered = client.ask("POST", path, body={"for_ms": duration_ms(duration)})
    if as_json:
        print_json(answered)
    elif duration is None:
        say(f"The timeout of {writer} counts again.")
    else:
        say(f"{stream} waits for {writer} for {duration}, whatever its timeout.")


def ledger(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    *,
    domain: Domain = None,
    after: Annotated[
        int, typer.Option(metavar="SEQ", min=0, help="Only entries after this one.")
    ] = 0,
    limit: Limit = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List each time that the watermark went on without a writer: from where to where, and why.

    Try it:  noted-time ledger flights
    """
    with told_plainly(), connected(url, token) as client:
        query = {"domain": domain, "after": after}
        path = stream_path(stream, "ledger")
        found = client.rows(path, "entries", cursor="after", limit=limit, query=query)
    if as_json:
        print_json(found)
        return
    columns = ("seq", "at", "from", "to", "writer", "reason", "its time", "its position", "by")
    print_table(columns, [row for entry in found["entries"] for row in _entry(entry)])
    if found["next"] is not None:
        say(f"There is more: noted-time ledger {stream} --after {found['next']}")


def _decided(stream: str, found: Json) -> str:
    """Return what the controller decided, in a sentence."""
    at = _at(found["lower"])
    if found["decision"] == "hold":
        many = f"{found['holders']} writer{'s' if found['holders'] > 1 else ''}"
        return f"{stream} holds {at}: it waits for {many}."
    if found["decision"] == "advance":
        return f"{stream}, {at}, advances to {shown_time(found['next_lower'])}."
    return f"{stream} is quiet {at}: it waits for nobody, and all is marked."


def _would(found: Json) -> str:
    """Return in a sentence what a dry run found."""
    would = found["would"]
    at, excluded = _at(would["lower"]), ", ".join(would["excluded"])
    verb = {
        "advance": f"advance to {shown_time(would['lower'])}",
        "hold": f"hold {at}",
        "quiet": f"be quiet {at}",
    }[would["decision"]]
    return f"Then it would {verb}{f', without {excluded}' if excluded else ''}."


def _dry_run(client: ApiClient, stream: str, writer: str) -> list[str]:
    """Return for each domain of the stream what follows from removing the writer."""
    domains = client.ask("GET", stream_path(stream))["domains"]
    lines = []
    for domain in domains:
        query = {"domain": domain, "exclude": [writer]}
        found = client.ask("GET", stream_path(stream, "explain"), query=query)
        lines.append(f"{_decided(f'{stream} ({domain})', found)} {_would(found)}")
    return lines


def _holder(waiting: Json, found: Json) -> tuple[str, ...]:
    writer, times_out_in_ms = waiting["writer"], waiting["times_out_in_ms"]
    return (
        writer,
        shown_time(waiting["time"]),
        shown_duration(waiting["held_for_ms"]),
        "never" if times_out_in_ms is None else shown_duration(times_out_in_ms),
        shown_time(found["lower_without"].get(writer)),
    )


def _print_writers(rows: list[Json]) -> None:
    columns = ("writer", "state", "times", "position", "noted at", "holding since")
    print_table(
        columns,
        [
            (
                row["writer"],
                row["state"],
                " ".join(f"{name}={shown_time(at)}" for name, at in row["times"].items()) or "-",
                _position(row),
                shown_time(row["noted_at"]),
                shown_time(row["holding_since"]),
            )
            for row in rows
        ],
    )


def _entry(entry: Json) -> list[tuple[str, ...]]:
    """Return a row for each writer of an entry of the ledger."""
    by = str(entry["by"] or "-")
    times = (shown_time(entry["at"]), shown_time(entry["from"]), shown_time(entry["to"]))
    return [
        (
            str(entry["seq"]),
            *times,
            each["writer"],
            each["reason"],
            shown_time(each["time"]),
            _position(each),
            by,
        )
        for each in entry["writers"]
    ]


def _position(row: Json) -> str:
    return shown_position(row.get("position") or {})


def _at(lower: int | None) -> str:
    return "before its first mark" if lower is None else f"at {shown_time(lower)}"
