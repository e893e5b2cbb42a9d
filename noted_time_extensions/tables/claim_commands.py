"""`noted-time claim`, and how far tables are complete."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from noted_time.extending import Rejected, format_time, name_program
from noted_time_cli.extending import (
    NO_VALUES,
    AsJson,
    Names,
    duration,
    echo,
    echo_json,
    group_command,
    option,
    say,
)
from noted_time_extensions.tables.checks import accept, since_claims, standing
from noted_time_extensions.tables.claim_verdicts import judge_no_claim
from noted_time_extensions.tables.inheriting import inherit, pin
from noted_time_extensions.tables.table_history import NoClaim
from noted_time_extensions.tables.table_hop import LET_CLAIM

app = typer.Typer(name="claim", no_args_is_help=True, help="Show and accept the claims of a table.")


@group_command(app, "show")
def show(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="delta:… or iceberg:CATALOG.TABLE")],
    *,
    name: Names = NO_VALUES,
    as_json: AsJson = False,
) -> None:
    """Show how far a table is complete, and its claims. Without a claim, the status is 1.

    Try it:  noted-time claim show delta:/data/orders
    """
    table_claim = standing(table, name or None)
    if isinstance(table_claim, NoClaim):
        raise Rejected(judge_no_claim(table, table_claim).sentence)
    records = {
        claim_name: json.loads(claim.to_json()) for claim_name, claim in table_claim.claims.items()
    }
    if as_json:
        of_all = {"complete_to": table_claim.complete_to, "version": table_claim.version}
        echo_json(json.dumps({**of_all, "is_foreign": table_claim.is_foreign, "claims": records}))
        return
    foreign = "; rows of others are in it, too" if table_claim.is_foreign else ""
    end_of_sentence = f"{format_time(table_claim.complete_to)}{table_claim.describe_lack()}"
    echo(f"{table} is complete to {end_of_sentence}: version {table_claim.version}{foreign}")
    for claim_name, claim in sorted(table_claim.claims.items()):
        bound = format_time(claim.complete_to)
        echo(f"  {claim_name}: {claim.time_of} below {bound}{claim.vouched_by}")


@group_command(app, "accept")
def accept_claim(
    table: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="delta:… or iceberg:CATALOG.TABLE")
    ],
    *,
    comment: Annotated[str | None, option("TEXT", "Who vouches for the table, and why.")] = None,
    at: Annotated[
        int | None, option("VERSION", "The version or snapshot that you have checked.")
    ] = None,
    name: Names = NO_VALUES,
) -> None:
    """Restore the claims of a table after a commit without a claim ended them.

    1. Run the command without --at. It lists the commits since the last claim.
    2. Check that the table is right.
    3. Run the printed command, with --at and --comment.

    The last claim of each name is committed again, with the comment. Another commit without a claim
    ends the claims again.

    Try it:  noted-time claim accept delta:/data/orders
    """
    if (at is None) != (comment is None):
        raise typer.BadParameter("--at and --comment go together: leave out both to list commits")
    if at is not None and comment is not None:
        if len(table) > 1:
            raise typer.BadParameter("--at is a version of one table: accept one at a time")
        for claim in accept(table[0], comment, name, at=at):
            outcome = f" is complete to {format_time(claim.complete_to)} again"
            if claim.complete_to is None:
                outcome = " claims again with the next micro-batch"
            echo(f"{table[0]}: {claim.name}{outcome}")
        return
    for url in table:
        _show_commits(url, name)
    say("nothing is accepted yet")
    raise typer.Exit(1)


@group_command(app, "pin")
def pin_sources(
    source: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="delta:… or iceberg:CATALOG.TABLE")
    ],
) -> None:
    """Print the present versions of tables, before a batch job reads them.

    Pass each line, SOURCE@VERSION, to `claim inherit` after the job.

    Try it:  noted-time claim pin delta:/data/orders
    """
    for pin_line in pin(*source):
        echo(str(pin_line))


@group_command(app, "inherit")
def inherit_claims(  # noqa: PLR0913 - one parameter for each option
    table: Annotated[str, typer.Argument(metavar="TABLE", help="delta:… or iceberg:CATALOG.TABLE")],
    *,
    name: Annotated[str, option("NAME", "The name of the claim.")],
    time_of: Annotated[str, option("COLUMN", "The table's column of the event time.")],
    source: Annotated[
        list[str],
        option(
            "SOURCE@VERSION", "A line of `claim pin`, from before the job. Repeatable.", "--from"
        ),
    ],
    static: Annotated[
        list[str], option("SOURCE", "A source that needs no claim. Repeatable.")
    ] = NO_VALUES,
    delay: Annotated[
        int, duration("How far its rows may lag behind, such as a window's size.", default="0s")
    ] = 0,
    at: Annotated[
        int | None, option("VERSION", "The version that the job wrote, else the current one.")
    ] = None,
) -> None:
    """Let a table claim the same as the sources of its batch job.

    1. Before the job, run `claim pin` with its sources, and keep the lines.
    2. Run the job. It must leave the table as if it had read the pinned versions anew.
    3. Run this command with the lines.

    The table is complete to the least time of its sources, less --delay. If a source has no claim,
    or was changed while the job ran, nothing is written.

    Try it:  noted-time claim inherit delta:days --name days --time-of day_end --from delta:orders@5
    """
    inheritance = inherit(
        table, source, name=name, time_of=time_of, delay_ms=delay, static=static, at=at
    )
    complete_to = inheritance.claim.complete_to
    former = inheritance.former
    if complete_to is not None and former is not None and complete_to < former:
        say(f"{table} was complete to {format_time(former)} before")
    already = " already" if inheritance.is_repeated else ""
    end_of_sentence = (
        f"{format_time(complete_to)}, from version {inheritance.claim.after} on{already}"
    )
    echo(f"{table}: {name} is complete to {end_of_sentence}")


def _show_commits(table: str, names: list[str]) -> None:
    table_claim = standing(table, names or None)
    if not isinstance(table_claim, NoClaim):
        echo(f"{table} is complete to {format_time(table_claim.complete_to)}: nothing to accept")
        return
    echo(f"{table}: {table_claim.why}")
    commits = since_claims(table, names)
    if not commits:
        echo(f"to claim: {LET_CLAIM.format(program=name_program(), dataset=table)}")
        return
    for commit in commits:
        echo(f"  {commit.id}  {commit.operation}")
    options = "".join(f" --name {name}" for name in names)
    last_options = f"--at {commits[-1].id} --comment …"
    echo(f"if the table is right:  {name_program()} claim accept {table}{options} {last_options}")
