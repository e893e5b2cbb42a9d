"""`noted-time alignment`, against the real controller."""

from uuid import uuid4

import pytest

from tests.cli.conftest import Commands
from tests.support.aligned import put_alignment, report_member
from tests.support.served import Served

TEN = 1_357_034_400_000
"""10:00 of a day, in Unix ms."""

HOUR = 3_600_000


@pytest.fixture
def shop(served: Served) -> str:
    """Make an alignment of a test's own: orders are two hours ahead of deliveries, the most."""
    name = uuid4().hex
    put_alignment(served.url, name, 2 * HOUR)
    report_member(served.url, name, "orders", TEN + 2 * HOUR)
    report_member(served.url, name, "deliveries", TEN)
    return name


def test_a_list_has_bound_holder_and_drift(run: Commands, shop: str) -> None:
    """Times and durations as people read them."""
    columns, *rows = run("alignment", "list").table

    assert columns == ["alignment", "bound", "held by", "drift", "members"]
    assert [shop, "2013-01-01T12:00:00Z", "deliveries", "2h of 2h", "2 of 2 counted"] in rows


def test_members_are_shown_from_the_slowest_on(run: Commands, served: Served, shop: str) -> None:
    """Which members hold, which wait, and which do not count, whatever their time."""
    report_member(served.url, shop, "returns", None)
    report_member(served.url, shop, "clicks", TEN + HOUR)
    shown = run("alignment", "show", shop).table

    members = [row[:3] for row in shown if len(row) == 5][1:]
    assert members == [
        ["deliveries", "holds the bound", "2013-01-01T10:00:00Z"],
        ["clicks", "within the bound", "2013-01-01T11:00:00Z"],
        ["orders", "at the bound", "2013-01-01T12:00:00Z"],
        ["returns", "no time yet, not counted", "-"],
    ]
    assert ["bound", "2013-01-01T12:00:00Z"] in shown


def test_to_set_changes_what_is_given_alone(run: Commands) -> None:
    """The first time it makes the alignment."""
    made = run("alignment", "set", "fresh", "--max-drift", "90m")
    changed = run("alignment", "set", "fresh", "--member-timeout", "5m")
    found = run("alignment", "show", "fresh", "--json").json

    assert (made.err, changed.err) == ("Created alignment fresh.\n", "Changed alignment fresh.\n")
    assert (found["max_drift"], found["member_timeout_ms"]) == (90 * 60_000, 5 * 60_000)
    assert ["bound", "none: no member counts"] in changed.table


def test_a_drift_may_be_a_number_of_another_clock(run: Commands, served: Served) -> None:
    """And is shown as one, if times are not Unix ms."""
    run("alignment", "set", "ticks", "--max-drift", "7")
    report_member(served.url, "ticks", "m", 5)
    (row,) = [row for row in run("alignment", "list").table if row[0] == "ticks"]

    assert row[1:4] == ["12", "m", "0 of 7"]


def test_the_help_teaches_how_a_query_joins(run: Commands) -> None:
    """By an option of it, as queries have no `align=`."""
    shown = " ".join(run("alignment", "set", "--help").out.split())

    assert 'read_noted_log(…, Align("shop"))' in shown


def test_what_goes_wrong_names_the_remedy(run: Commands) -> None:
    """In a sentence each."""
    refused = [
        run("alignment", "set", "none", "--member-timeout", "5m"),
        run("alignment", "show", "none"),
        run("alignment", "set", "none", "--max-drift", "2 hours"),
    ]

    assert [(each.status, each.err) for each in refused] == [
        (1, "noted-time: there is no alignment 'none'; use --max-drift to create it\n"),
        (
            1,
            (
                "noted-time: there is no alignment 'none': create it with "
                "`noted-time alignment set none --max-drift DURATION`\n"
            ),
        ),
        (
            2,
            "noted-time: invalid duration '2 hours'; use for example 90d, 12h, 30m, 45s or 500ms\n",
        ),
    ]


def test_an_alignment_is_removed_after_yes_only(run: Commands, shop: str) -> None:
    """Off a terminal it cannot ask."""
    refused = run("alignment", "remove", shop)
    removed = run("alignment", "remove", shop, "--yes")
    left = run("alignment", "list", "--json").json["alignments"]

    assert (refused.status, "use --yes" in refused.err) == (2, True)
    assert (removed.status, removed.err) == (0, f"Removed alignment {shop}.\n")
    assert shop not in [each["name"] for each in left]
