"""`noted-time explain`: why the watermark is not advancing, and what if."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from controller.cli import words
from controller.cli.api_client import MOST_ROWS, ApiClient, connected, stream_path
from controller.cli.options import DEFAULT_URL, NONE, AsJson, Domain, Stream, Token, Url
from controller.cli.output import print_json, print_table, told_plainly
from controller.cli.times import shown_time
from noted_time.values import duration_ms, shown_duration

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]
COLUMNS = ("writer", "time", "held for", "times out in", "lower without it")
MOST_PAGES = 10
"""So many pages of writers are looked through for those excluded."""

MOST_SUPPOSED = 100
"""So many holders are left out in one dry run: their names go into the address."""


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

    In words first: who holds it, why the others do not, when it goes on by itself, what leaving
    the holders out would give, and who is excluded. Then the holders as a table.

    Try it:  noted-time explain flights --exclude UA
    """
    with told_plainly(), connected(url, token) as client:
        timeout_ms = None if writer_timeout is None else duration_ms(writer_timeout)
        query = {"domain": domain, "exclude": exclude, "writer_timeout_ms": timeout_ms}
        found = client.ask("GET", stream_path(stream, "explain"), query=query)
        sentences = [] if as_json else list(_sentences(client, stream, domain, found))
    if as_json:
        print_json(found)
        return
    for sentence in sentences:
        typer.echo(sentence)
    if found["waiting_for"]:
        print_table(COLUMNS, [_holder(each, found) for each in found["waiting_for"]])
    if exclude or writer_timeout:
        typer.echo(words.would(found))


def _sentences(client: ApiClient, stream: str, domain: str | None, found: Json) -> Iterator[str]:
    """Ask what else the sentences need, and return them."""
    path = stream_path(stream, "writers")
    writers = client.ask("GET", path, query={"domain": domain, "limit": MOST_ROWS})
    further = words.Further(
        writers,
        domain,
        list(_excluded(client, path, writers)),
        _without_all(client, stream, domain, found),
    )
    return words.explained(stream, found, further)


def _excluded(client: ApiClient, path: str, page: Json) -> Iterator[Json]:
    """Yield those excluded, as far as they are named, from the first pages of the writers."""
    left = min(page["states"]["excluded"], words.NAMED)
    for _ in range(MOST_PAGES):
        found = [row for row in page["writers"] if row["excluded"]][:left]
        yield from found
        left -= len(found)
        if not left or page["next"] is None:
            return
        page = client.ask("GET", path, query={"start": page["next"], "limit": MOST_ROWS})


def _without_all(client: ApiClient, stream: str, domain: str | None, found: Json) -> Json | None:
    """Return the dry run without any of several holders; of one `lower_without` says it all."""
    holders = [each["writer"] for each in found["waiting_for"]]
    if not 1 < found["holders"] <= MOST_SUPPOSED:
        return None
    query = {"domain": domain, "exclude": holders}
    would: Json = client.ask("GET", stream_path(stream, "explain"), query=query)["would"]
    return would


def _holder(waiting: Json, found: Json) -> tuple[str, ...]:
    writer, times_out_in_ms = waiting["writer"], waiting["times_out_in_ms"]
    return (
        writer,
        shown_time(waiting["time"]),
        shown_duration(waiting["held_for_ms"]),
        "never" if times_out_in_ms is None else shown_duration(times_out_in_ms),
        shown_time(found["lower_without"].get(writer)),
    )
