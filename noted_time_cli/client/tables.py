"""Tables of Delta and Iceberg: what they are complete to, and `noted-time claim`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from noted_time import NotedTimeError, OpenStream, Rejected
from noted_time.client import run
from noted_time.client.waiting import NotYet
from noted_time.tables import NoClaim, TableClaim, accept, since_claims, standing
from noted_time.values import format_time
from noted_time_cli.client.caller import Caller
from noted_time_cli.terminal.flags import group_command
from noted_time_cli.terminal.options import DEFAULT_URL, NO_VALUES, AsJson, option
from noted_time_cli.terminal.output import echo, say
from reader_client.protocol.requirements import NOT_ASKED, Requirement, find_table_objections

TableOption = Annotated[
    str | None,
    option("URL", "Ask a table instead: delta:LOCATION or iceberg:CATALOG.TABLE, by its claims."),
]
Names = Annotated[
    list[str], option("NAME", "A claim that the table must have; several may be given.")
]

app = typer.Typer(name="claim", no_args_is_help=True, help="The claims in the commits of a table.")


class NothingClaimed(NotYet):
    """Nothing is claimed of a table: the reason."""


def read_claim(table: str, names: list[str]) -> TableClaim:
    """Return the claim of a table; raises `NothingClaimed`, and as `standing`."""
    found = standing(table, names or None)
    if isinstance(found, NoClaim):
        raise NothingClaimed(f"nothing is claimed of {table}: {found.why}")
    return found


def describe_lack(found: TableClaim) -> str:
    """Return which writers and rows a table is without, as the end of a sentence.

    >>> describe_lack(TableClaim(5, 1, {}, missing=("pos", "web")))
    ', without pos, web'
    >>> describe_lack(TableClaim(5, 1, {}, missing=())), describe_lack(TableClaim(5, 1, {}))
    ('', '; who is missing was not asked')
    """
    if found.missing is None:
        said = "; who is missing was not asked"
    else:
        said = found.vouched_by + (f", without {', '.join(found.missing)}" if found.missing else "")
    return f"{said}; {found.gone}" if found.gone else said


def ask_objections(call: Caller, claim: TableClaim, time: int, required: Requirement) -> list[str]:
    """Return what a table lacks of a requirement, by its claims and what a controller answers.

    That none is at the default URL means that none was named; raises as `Caller.ask` for others.
    """
    try:
        return run(find_table_objections(claim, time, required), call.transport.ask)
    except OpenStream as error:
        return [str(error)]
    except NotedTimeError:
        if call.transport.controllers.urls != (DEFAULT_URL,):
            raise
        return [NOT_ASKED]


@group_command(app, "show")
def show(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="delta:… or iceberg:CATALOG.TABLE")],
    *,
    name: Names = NO_VALUES,
    as_json: AsJson = False,
) -> None:
    """Show what a table is complete to, and the claim of each name.

    Ends with status 1 if nothing is claimed, and says why.

    Try it:  noted-time claim show delta:/data/orders
    """
    found = read_claim(table, name)
    records = {each: json.loads(claim.to_json()) for each, claim in found.claims.items()}
    if as_json:
        of_all = {"complete_to": found.complete_to, "version": found.version}
        echo(json.dumps({**of_all, "is_foreign": found.is_foreign, "claims": records}))
        return
    foreign = "; rows of others are in it, too" if found.is_foreign else ""
    shown = f"{format_time(found.complete_to)}{describe_lack(found)}"
    echo(f"{table} is complete to {shown}: version {found.version}{foreign}")
    for each, claim in sorted(found.claims.items()):
        below = format_time(claim.complete_to)
        echo(f"  {each}: {claim.time_of} below {below}{claim.vouched_by}")


@group_command(app, "accept")
def accept_claim(
    table: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="delta:… or iceberg:CATALOG.TABLE")
    ],
    *,
    comment: Annotated[str | None, option("TEXT", "Who vouches for the table, and why.")] = None,
    at: Annotated[
        int | None, option("VERSION", "The version or snapshot that was looked at.")
    ] = None,
    name: Names = NO_VALUES,
) -> None:
    """Vouch for a table whose claims have ended, after looking at what ended them.

    Without --at nothing is accepted: the commits since then are listed, with the command to run. It
    commits the last claim of each name again, with the comment; from the next micro-batch on the
    query claims as before. What others change meanwhile ends the claim again.

    Try it:  noted-time claim accept delta:/data/orders
    """
    if at is not None and comment is not None:
        if len(table) > 1:
            raise Rejected("--at is a version of one table: accept one at a time")
        for claim in accept(table[0], comment, name, at=at):
            again = f" is complete to {format_time(claim.complete_to)} again"
            if claim.complete_to is None:
                again = " claims again with the next micro-batch"
            echo(f"{table[0]}: {claim.name}{again}")
        return
    for each in table:
        _show_commits(each, name)
    say("nothing is accepted yet")
    raise typer.Exit(1)


def _show_commits(table: str, names: list[str]) -> None:
    """Print what happened to a table since its claims ended, and the command that accepts it."""
    found = standing(table, names or None)
    if not isinstance(found, NoClaim):
        echo(f"{table} is complete to {format_time(found.complete_to)}: nothing to accept")
        return
    echo(f"{table}: {found.why}")
    commits = since_claims(table, names)
    for commit in commits:
        echo(f"  {commit.id}  {commit.operation}")
    if commits:
        options = "".join(f" --name {each}" for each in names)
        last = f"--at {commits[-1].id} --comment …"
        echo(f"if the table is right:  noted-time claim accept {table}{options} {last}")
