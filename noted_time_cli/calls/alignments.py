"""`noted-time alignment`: how far readers of several streams may be apart, and who holds them."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated

import typer

from noted_time.values import (
    UNIX_MS,
    Rejected,
    UnknownAlignment,
    checked_name,
    duration_ms,
    shown_duration,
    shown_seconds,
    shown_time,
)
from noted_time_cli.calls.calling import Caller, Json, calls
from noted_time_cli.terminal.options import Limit, Yes, option
from noted_time_cli.terminal.output import confirm, print_table, say

if TYPE_CHECKING:
    from noted_time_cli.terminal.output import Columns

Alignment = Annotated[str, typer.Argument(metavar="ALIGNMENT", help="The alignment's name.")]
SETTINGS = ("max_drift", "member_timeout_ms")

app = typer.Typer(
    name="alignment",
    help="Create, show and remove alignments: readers that wait for the slowest of them.",
    no_args_is_help=True,
)


def _shown_drift(drift: int | None, bound: int | None) -> str:
    """Return a drift as a duration, unless the bound says that times are not Unix ms.

    >>> _shown_drift(7_200_000, 1_357_034_400_000), _shown_drift(7, 42), _shown_drift(None, None)
    ('2h', '7', '-')
    """
    if drift is None:
        return "-"
    return shown_duration(drift) if bound is None or bound in UNIX_MS else str(drift)


ALIGNMENTS: Columns = {
    "alignment": "name",
    "max drift": lambda row: shown_duration(row["max_drift"]),
    "member timeout": lambda row: shown_duration(row["member_timeout_ms"]),
}


@app.command(name="list")
@calls
def list_alignments(call: Caller, *, limit: Limit = 100) -> None:
    """List the alignments with their settings; `show` has the members of one.

    Try it:  noted-time alignment list
    """
    call.listing("/v1/alignments", "alignments", ALIGNMENTS, cursor="after", limit=limit)


@app.command()
@calls
def show(call: Caller, alignment: Alignment) -> None:
    """Show the settings of an alignment, its bound, and where each member is.

    The slowest member that counts holds the bound; others wait at the bound.

    Try it:  noted-time alignment show shop
    """
    found = call.ask("GET", _path(alignment))
    if call.prints(found):
        return
    _print_alignment(found)
    rows = [{**each, "name": name} for name, each in found["members"].items()]
    for row in rows:
        row["holds"] = row["name"] == found["held_by"]
    print_table(MEMBERS, sorted(rows, key=_place))


@app.command(name="set")
@calls
def set_alignment(
    call: Caller,
    alignment: Alignment,
    *,
    max_drift: Annotated[
        str | None,
        option("DURATION", "How far members may be ahead of the slowest: 2h, or a number."),
    ] = None,
    member_timeout: Annotated[
        str | None, option("DURATION", "How long a silent member is waited for.", default="30s")
    ] = None,
) -> None:
    """Create an alignment, or change the given settings of an existing one.

    Readers join by its name: `ReaderClient(…, align="shop")`, `read_noted_log(…, Align("shop"))`.

    Try it:  noted-time alignment set shop --max-drift 2h
    """
    settings = {} if max_drift is None else {"max_drift": _drift(max_drift)}
    if member_timeout is not None:
        settings["member_timeout_ms"] = duration_ms(member_timeout)
    path = _path(alignment)
    try:
        was = call.ask("GET", path)
    except UnknownAlignment:
        if max_drift is None:
            message = f"there is no alignment {alignment!r}; use --max-drift to create it"
            raise Rejected(message) from None
    else:
        settings = {name: was[name] for name in SETTINGS} | settings
    status, found = call.answer("PUT", path, body=settings)
    if call.prints(found):
        return
    say(f"{'Created' if status == HTTPStatus.CREATED else 'Changed'} alignment {alignment}.")
    _print_alignment(found)


@app.command()
@partial(calls, prints=False)
def remove(call: Caller, alignment: Alignment, *, yes: Yes = False) -> None:
    """Remove an alignment, after confirmation: its members are no longer bounded.

    Try it:  noted-time alignment remove shop
    """
    path = _path(alignment)
    count = len(call.ask("GET", path)["members"])
    confirm(f"Remove {alignment}, and let its members ({count}) read on unbounded?", yes=yes)
    call.ask("DELETE", path)
    say(f"Removed alignment {alignment}.")


def _path(alignment: str) -> str:
    return f"/v1/alignments/{checked_name('alignment', alignment)}"


def _drift(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else duration_ms(text)


def _print_alignment(found: Json) -> None:
    bound = found["bound"]
    values = {
        "max_drift": _shown_drift(found["max_drift"], bound),
        "member_timeout_ms": shown_duration(found["member_timeout_ms"]),
        "bound": "none: no member counts" if bound is None else shown_time(bound),
        "held_by": found["held_by"],
        "drift": _shown_drift(found["drift"], bound),
    }
    rows = [{"name": name, "value": value} for name, value in values.items()]
    print_table({"alignment": "name", found["name"]: "value"}, rows)


def _place(member: Json) -> tuple[bool, int, str]:
    """Return the place of a member among the others: those that count first, the slowest first."""
    return not member["counted"], member["time"] or 0, member["name"]


def _state(member: Json) -> str:
    """Return what a member does to the others, or they to it; otherwise why it is not counted."""
    if not member["counted"]:
        silent = "no time yet" if member["time"] is None else "silent"
        return f"{silent if member['state'] == 'live' else member['state']}, not counted"
    if member["holds"]:
        return "holds the bound"
    return "at the bound" if member["at_bound"] else "within the bound"


def _group(member: Json) -> str | None:
    group = member["group"]
    return f"{group['stream']}/{group['group']}" if group else None


MEMBERS: Columns = {
    "member": "name",
    "state": _state,
    "time": lambda member: shown_time(member["time"]),
    "reported": lambda member: f"{shown_seconds(member['silent_for_ms'])} ago",
    "reader group": _group,
}
