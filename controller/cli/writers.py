"""The commands that list writers, and go on without one or wait for it."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from controller.cli.api_client import ApiClient, connected, stream_path, writer_path
from controller.cli.options import (
    DEFAULT_URL,
    AsJson,
    Comment,
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
from controller.cli.words import decided, would
from noted_time.values import NotedMeanwhile, duration_ms

Json = dict[str, Any]
TURNS = 3
"""So often is a removal tried that nobody is asked about, while its writer goes on noting."""


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
    comment: Comment = None,
    yes: Yes = False,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Go on without a writer, from its last position; shows first what would follow, and asks.

    Where the writer notes meanwhile, it shows again what would follow. The writer becomes a member
    again when it notes.

    Try it:  noted-time remove flights UA --comment "its machine is gone"
    """
    with told_plainly(), connected(url, token) as client:
        removed = _remove_as_shown(client, stream, writer, comment, yes=yes)
    if as_json:
        print_json(removed)
    else:
        say(f"{writer} is removed from {stream}, at position {_position(removed)}.")


def _remove_as_shown(
    client: ApiClient, stream: str, writer: str, comment: str | None, *, yes: bool
) -> Json:
    """Remove the writer if it has not noted since what would follow was shown."""
    path = writer_path(stream, writer)
    turn = 0
    while True:
        turn += 1
        noted_at = client.ask("GET", path)["noted_at"]
        for line in _dry_run(client, stream, writer):
            say(line)
        say(f"{writer} noted last at {shown_time(noted_at)}.")
        confirm(f"Go on without {writer}?", yes=yes)
        query = {"unless_noted_since": noted_at, "comment": comment}
        try:
            return client.ask("DELETE", path, query=query)
        except NotedMeanwhile as noted:
            if yes and turn == TURNS:
                raise
            say(f"{writer} has noted meanwhile, at {shown_time(noted.noted_at)}.")


def hold(  # noqa: PLR0913 - one parameter for each flag
    stream: Stream,
    writer: Writer,
    *,
    comment: Comment = None,
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
        raise typer.BadParameter("use either --for DURATION or --release")
    with told_plainly(), connected(url, token) as client:
        path, query = writer_path(stream, writer, "hold"), {"comment": comment}
        if duration is None:
            answered = client.ask("DELETE", path, query=query)
        else:
            body = {"for_ms": duration_ms(duration)}
            answered = client.ask("POST", path, query=query, body=body)
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


def _dry_run(client: ApiClient, stream: str, writer: str) -> list[str]:
    """Return for each domain of the stream what follows from removing the writer."""
    domains = client.ask("GET", stream_path(stream))["domains"]
    lines = []
    for domain in domains:
        query = {"domain": domain, "exclude": [writer]}
        found = client.ask("GET", stream_path(stream, "explain"), query=query)
        lines.append(f"{decided(f'{stream} ({domain})', found)} {would(found)}")
    return lines


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
    said = [
        (each["writer"], each["reason"], shown_time(each["time"]), _position(each))
        for each in entry["writers"]
    ]
    said += [(writer, "returned", "-", "-") for writer in entry.get("returned", ())]
    return [(str(entry["seq"]), *times, *each, by) for each in said]


def _position(row: Json) -> str:
    return shown_position(row.get("position") or {})
