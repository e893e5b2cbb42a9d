"""`noted-time alignment`: how far readers of several streams may be apart, and who holds them."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

import typer

from controller.cli.api_client import alignment_path, connected
from controller.cli.options import DEFAULT_URL, AsJson, Limit, Token, Url, Yes
from controller.cli.output import confirm, print_json, print_table, say, told_plainly
from controller.cli.times import UNIX_MS, shown_seconds, shown_time
from noted_time.values import Rejected, UnknownAlignment, duration_ms, shown_duration

Json = dict[str, Any]
Alignment = Annotated[str, typer.Argument(metavar="ALIGNMENT", help="The alignment's name.")]

app = typer.Typer(
    name="alignment",
    help="Make, show and remove alignments: readers that wait for the slowest of them.",
    no_args_is_help=True,
)


@app.command(name="list")
def list_alignments(
    *,
    limit: Limit = 100,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """List the alignments: how far their members may read, and who holds them there.

    Try it:  noted-time alignment list
    """
    with told_plainly(), connected(url, token) as client:
        found = client.rows("/v1/alignments", "alignments", cursor="after", limit=limit, query={})
    if as_json:
        print_json(found)
        return
    columns = ("alignment", "bound", "held by", "drift", "members")
    print_table(columns, map(_row, found["alignments"]))
    if found["next"] is not None:
        say(f"There are more than these {limit}: see --limit.")


@app.command()
def show(
    alignment: Alignment, *, url: Url = DEFAULT_URL, token: Token = None, as_json: AsJson = False
) -> None:
    """Show the settings of an alignment, its bound, and where each member is.

    The slowest member that counts holds the bound; others wait at the bound.

    Try it:  noted-time alignment show shop
    """
    with told_plainly(), connected(url, token) as client:
        found = client.ask("GET", alignment_path(alignment))
    if as_json:
        print_json(found)
        return
    _print_alignment(found)
    columns = ("member", "state", "time", "reported", "reader group")
    members = sorted(found["members"].items(), key=_place)
    print_table(columns, [_member(found, name, each) for name, each in members])


@app.command(name="set")
def set_alignment(  # noqa: PLR0913 - one parameter for each flag
    alignment: Alignment,
    *,
    max_drift: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default=False,
            help="How far members may be ahead of the slowest: as 90m or 2h, or a number where "
            "times are not Unix ms.",
        ),
    ] = None,
    member_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            show_default="30s",
            help="A member that reports nothing for so long is not waited for.",
        ),
    ] = None,
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: AsJson = False,
) -> None:
    """Make an alignment; where it is there already, change the settings that are given.

    Readers join by its name: `ReaderClient(…, align="shop")`, `read_noted_log(…, align="shop")`.

    Try it:  noted-time alignment set shop --max-drift 2h
    """
    with told_plainly():
        settings = {} if max_drift is None else {"max_drift": _drift(max_drift)}
        if member_timeout is not None:
            settings["member_timeout_ms"] = duration_ms(member_timeout)
        with connected(url, token) as client:
            path = alignment_path(alignment)
            try:
                was = client.ask("GET", path)
            except UnknownAlignment:
                if max_drift is None:
                    message = f"there is no alignment {alignment!r}; use --max-drift to create it"
                    raise Rejected(message) from None
            else:
                settings = {name: was[name] for name in SETTINGS} | settings
            status, made = client.answer("PUT", path, body=settings)
    if as_json:
        print_json(made)
        return
    is_new = status == HTTPStatus.CREATED
    say(f"{'Created' if is_new else 'Changed'} alignment {alignment}.")
    _print_alignment(made)


@app.command()
def remove(
    alignment: Alignment, *, yes: Yes = False, url: Url = DEFAULT_URL, token: Token = None
) -> None:
    """Remove an alignment, after a question: nothing bounds its members any more.

    Try it:  noted-time alignment remove shop
    """
    with told_plainly(), connected(url, token) as client:
        path = alignment_path(alignment)
        count = len(client.ask("GET", path)["members"])
        confirm(f"Remove {alignment}, and let its members ({count}) read on unbounded?", yes=yes)
        client.ask("DELETE", path)
    say(f"{alignment} is removed.")


SETTINGS = ("max_drift", "member_timeout_ms")


def _drift(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else duration_ms(text)


def _shown_drift(drift: int | None, bound: int | None) -> str:
    """Return a drift as a duration, unless the bound says that times are no Unix ms.

    >>> _shown_drift(7_200_000, 1_357_034_400_000), _shown_drift(7, 42), _shown_drift(None, None)
    ('2h', '7', '-')
    """
    if drift is None:
        return "-"
    return shown_duration(drift) if bound is None or bound in UNIX_MS else str(drift)


def _row(row: Json) -> tuple[str, ...]:
    bound = row["bound"]
    counted = f"{row['members_counted']} of {row['members_total']} counted"
    return (
        row["name"],
        shown_time(bound),
        row["held_by"] or "-",
        f"{_shown_drift(row['drift'], bound)} of {_shown_drift(row['max_drift'], bound)}",
        counted if row["answered"] else "its controller does not answer",
    )


def _print_alignment(found: Json) -> None:
    bound = found["bound"]
    rows = [
        ("max_drift", _shown_drift(found["max_drift"], bound)),
        ("member_timeout_ms", shown_duration(found["member_timeout_ms"])),
        ("bound", "none: no member counts" if bound is None else shown_time(bound)),
        ("held_by", found["held_by"] or "-"),
        ("drift", _shown_drift(found["drift"], bound)),
    ]
    print_table(("alignment", found["name"]), rows)


def _place(member: tuple[str, Json]) -> tuple[bool, int, str]:
    """Return the place of a member among the others: those that count first, the slowest first."""
    name, each = member
    return not each["counted"], each["time"] or 0, name


def _member(found: Json, name: str, member: Json) -> tuple[str, ...]:
    group = member["group"]
    return (
        name,
        _state(found, name, member),
        shown_time(member["time"]),
        f"{shown_seconds(member['silent_for_ms'])} ago",
        f"{group['stream']}/{group['group']}" if group else "-",
    )


def _state(found: Json, name: str, member: Json) -> str:
    """Return what a member does to the others, or they to it; else why it is not counted."""
    if not member["counted"]:
        silent = "no time yet" if member["time"] is None else "silent"
        return f"{silent if member['state'] == 'live' else member['state']}, not counted"
    if name == found["held_by"]:
        return "holds the bound"
    return "at the bound" if member["at_bound"] else "within the bound"
