from __future__ import annotations

import itertools
from datetime import timedelta, timezone
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from controller.cli.strip import drawn, out_of_date
from controller.cli.strip_values import Bar, Strip, strip_of

NINE_25 = 1_357_032_300_000
HALF_PAST_TEN = 1_357_036_200_000
NOW = HALF_PAST_TEN + 1000
EAST = timezone(timedelta(hours=1))
STATES = {"live": 3, "idle": 1, "finished": 0, "excluded": 1}
LIMA = Bar("lima", "live", NINE_25, 5000, 240_000, 12_000, HALF_PAST_TEN)
BARS = (
    LIMA,
    Bar("berlin", "live", HALF_PAST_TEN, 400),
    Bar("nairobi", "live", NINE_25 + 1_950_000, 900),
    Bar("osaka", "idle", NINE_25 - 1000, 3_600_000),
    Bar("quito", "excluded", None, 3_600_000),
)
STRIP = Strip("orders", "", NOW, NINE_25, "hold", None, 1, STATES, BARS)


def lines(strip: Strip, width: int, *, rows: int = 20) -> list[str]:
    """Return what a terminal of that width shows, an hour east of Greenwich."""
    console = Console(record=True, width=width, file=StringIO(), markup=False)
    console.print(drawn(strip, zone=EAST, width=width, rows=rows))
    return [line.rstrip() for line in console.export_text().splitlines()]


def titles(shown: list[str]) -> str:
    """Return the line above the rule."""
    return next(above for above, rule in itertools.pairwise(shown) if "──" in rule)


def test_at_120_columns_all_is_shown() -> None:
    """Holder first; bars to the right of the watermark on one axis, local times, UTC above."""
    assert lines(STRIP, 120) == [
        "stream     orders",
        "watermark  2013-01-01 10:25:00 (09:25:00Z), 65 min behind the clock",
        "decision   held by lima for 4m, since 11:26:01",
        "writers    3 live, 1 idle, 0 finished, 1 excluded",
        "",
        (
            "writer    state     10:25                           11:30     noted  last heard"
            "  held for  times out in  without it"
        ),
        "─" * 120,
        (
            "lima      holds     ▏                                         10:25      5s ago"
            "        4m           12s  11:30 (+65 min)"
        ),
        "berlin    live      █████████████████████████████████████     11:30      0s ago",
        "nairobi   live      ██████████████████▌                    10:57:30      0s ago",
        "osaka     idle      ◂                                      10:24:59      1h ago",
        "quito     excluded                                                -      1h ago",
    ]


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (80, ["writer", "state", "10:25", "noted", "held for", "times out in", "without it"]),
        (60, ["writer", "10:25", "held for", "without it"]),
        (40, ["writer", "10:25", "without it"]),
    ],
)
def test_a_narrow_terminal_loses_columns_not_lines(width: int, expected: list[str]) -> None:
    """What is left says who, since when and what if; no row is broken."""
    shown = lines(STRIP, width)

    found = titles(shown)
    assert [title for title in expected if title not in found] == []
    assert [len(line) <= width for line in shown] == [True] * len(shown)
    assert [line.split()[0] for line in shown[-5:]] == [bar.writer for bar in BARS]


def test_a_long_name_is_cut() -> None:
    """It takes no column from what the operator asks for."""
    long = Bar("x" * 249, "live", NINE_25, 0, 240_000, 12_000, HALF_PAST_TEN)
    strip = Strip("orders", "", NOW, NINE_25, "hold", None, 1, STATES, (long,))
    row = next(line for line in lines(strip, 60) if "▏" in line)

    assert (row.startswith("xxxxxxx"), "…" in row, row.endswith("11:30 (+65 min)")) == (
        True,
        True,
        True,
    )


@pytest.mark.parametrize("width", [60, 80, 120])
def test_names_are_no_markup(width: int) -> None:
    """Whatever a stream or a writer is called is shown as it is."""
    bold = Bar("[red]lima[/]", "live", NINE_25, 5000, 240_000, 12_000, HALF_PAST_TEN)
    strip = Strip("[b]orders", "[i]d", NOW, NINE_25, "hold", None, 1, STATES, (bold,))
    shown = "\n".join(lines(strip, width))

    assert ("[b]orders, [i]d" in shown, shown.count("[red]lima[/]")) == (True, 2)


def test_more_writers_than_rows_are_counted() -> None:
    """As many as fit are shown."""
    states = STATES | {"live": 9_999}
    strip = Strip("orders", "", NOW, NINE_25, "hold", None, 1, states, BARS)

    assert lines(strip, 80, rows=2)[-1] == "and 9,999 more writers"


@pytest.mark.parametrize(
    ("strip", "said"),
    [
        (
            Strip("s", "", NOW, NINE_25, "advance", HALF_PAST_TEN, 0, STATES, ()),
            "decision   advances to 11:30",
        ),
        (
            Strip("s", "", NOW, NINE_25, "quiet", None, 0, STATES, ()),
            "decision   quiet: it waits for no writer; everything is marked",
        ),
        (
            Strip("s", "", NOW, NINE_25, "hold", None, 3, STATES, BARS),
            "decision   held by 3 writers, lima longest: for 4m, since 11:26:01",
        ),
        (
            Strip("s", "", NOW, None, "hold", None, 1, STATES, BARS),
            "watermark  none yet: no mark has been made",
        ),
        (Strip("s", "", NOW, 42, "quiet", None, 0, STATES, ()), "watermark  42"),
        (
            Strip("s", "", NOW, 1_357_082_100_000, "quiet", None, 0, STATES, ()),
            "watermark  2013-01-02 00:15:00 (2013-01-01T23:15:00Z)",
        ),
    ],
)
def test_the_decision_is_told_in_words(strip: Strip, said: str) -> None:
    """Of each kind, and also without a mark, or where times are of no clock."""
    assert said in lines(strip, 120)


@pytest.mark.parametrize(
    ("lower", "without", "said"),
    [
        (NINE_25, NINE_25, "the same"),
        (NINE_25, None, "no mark"),
        (None, HALF_PAST_TEN, "11:30"),
        (NINE_25, HALF_PAST_TEN + 86_400_000, "2013-01-02 11:30 (+1d 1h)"),
    ],
)
def test_without_it_is_told_in_a_word(lower: int | None, without: int | None, said: str) -> None:
    """What leaving the holder out would give, where that is no later time either."""
    bar = Bar("lima", "live", NINE_25, 5000, 240_000, None, without)
    strip = Strip("orders", "", NOW, lower, "hold", None, 1, STATES, (bar,))
    shown = lines(strip, 120)[7]

    assert (shown.endswith(said), "never" in shown) == (True, True)


def test_times_need_not_be_of_a_clock() -> None:
    """They are shown as they are."""
    bars = (Bar("a", "live", 40, 5000, 1000, 12_000, 44), Bar("b", "live", 44, 0))
    strip = Strip("orders", "", NOW, 40, "hold", None, 1, STATES, bars)

    assert lines(strip, 120)[7].endswith("44 (+4)")


def test_what_is_out_of_date_says_so() -> None:
    """How old it is, why, and that it is tried again."""
    said = out_of_date(12_400, "no answer from http://a:7464")

    assert said.plain == (
        "No answer for 12s, so what is shown is that old; "
        "trying again: no answer from http://a:7464"
    )


def test_answers_are_put_together_by_writer() -> None:
    """Holders of the domain come first, with what `explain` knows of them."""
    stream = {"name": "orders", "domains": ["ordered", "shipped"]}
    rows: list[dict[str, Any]] = [
        {"writer": w, "state": "live", "times": {"shipped": at}, "noted_at": NOW - 400}
        for w, at in (("berlin", HALF_PAST_TEN), ("lima", NINE_25))
    ]
    writers = {"writers": rows, "states": STATES, "now": NOW}
    waiting = {"writer": "lima", "time": NINE_25, "held_for_ms": 100, "times_out_in_ms": 50}
    explained = {
        "decision": "hold",
        "lower": NINE_25,
        "next_lower": None,
        "waiting_for": [waiting],
        "holders": 1,
        "lower_without": {"lima": HALF_PAST_TEN},
    }
    strip = strip_of(stream, explained, writers, "shipped")

    assert strip == Strip(
        "orders",
        "shipped",
        NOW,
        NINE_25,
        "hold",
        None,
        1,
        STATES,
        (
            Bar("lima", "live", NINE_25, 400, 100, 50, HALF_PAST_TEN),
            Bar("berlin", "live", HALF_PAST_TEN, 400),
        ),
    )
    assert strip.axis == (NINE_25, HALF_PAST_TEN)
