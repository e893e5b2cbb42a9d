from __future__ import annotations

from typing import Any

import pytest

from controller.cli.words import ABANDONED, Further, explained

NINE_25 = 1_357_032_300_000
HALF_PAST_TEN = 1_357_036_200_000
NOW = NINE_25 + 4_000_000
QUIET: dict[str, Any] = {
    "decision": "quiet",
    "next_lower": None,
    "waiting_for": [],
    "holders": 0,
    "hints": [],
}


def hold(*writers: str, without: int | None = HALF_PAST_TEN, **facts: object) -> dict[str, Any]:
    """Return the answer where these hold at 9:25; the lower without the first is `without`."""
    return {
        "decision": "hold",
        "lower": NINE_25,
        "next_lower": None,
        "holders": len(writers),
        "waiting_for": [
            {"writer": w, "time": NINE_25, "held_for_ms": 60_000, "times_out_in_ms": 5_000 * n}
            for n, w in enumerate(writers, 1)
        ],
        "lower_without": dict.fromkeys(writers, without),
        "hints": [],
        **facts,
    }


def page(*rows: dict[str, Any], **states: int) -> dict[str, Any]:
    """Return a page of writers, with how many there are in each state."""
    counted = {"live": 0, "idle": 0, "finished": 0, "excluded": 0} | states
    return {"writers": list(rows), "states": counted, "now": NOW}


def test_one_holder_is_explained_as_an_operator_would() -> None:
    """Who, since when, why not the others, until when, and what if."""
    lima = {"writer": "lima", "noted_at": NOW - 62_000}
    said = explained("orders", hold("lima"), Further(page(lima, live=3, idle=2, finished=1)))

    assert list(said) == [
        "orders holds at 2013-01-01T09:25:00Z: it waits for 1 writer.",
        "lima has held it for 1m: it noted 09:25Z and no later time, and was last heard 1m 2s ago.",
        "2 other live writers have noted later times.",
        "Not waited for: 2 idle, 1 finished.",
        "It advances when lima notes a later time, or automatically in 5s, when lima times out.",
        (
            "Without lima it would be at 10:30Z, 65 min later; "
            "what lima writes below 10:30Z would then be late."
        ),
        "No writer is excluded.",
    ]


def test_of_several_holders_the_longest_is_told() -> None:
    """They all have to go before the watermark does, so what counts is without all of them."""
    names = ("lima", "osaka", "berlin", "delhi", "quito", "accra", "cairo")
    further = Further(page(live=7), without_all={"lower": HALF_PAST_TEN})
    said = list(explained("orders", hold(*names, without=NINE_25), further))

    assert said[1:4] == [
        (
            "They are lima, osaka, berlin, delhi, quito and 2 more. "
            "lima has held it longest, for 1m: it noted 09:25Z and no later time."
        ),
        (
            "It advances when each of them notes a later time, or automatically in 35s, "
            "when the last of them times out."
        ),
        (
            "Without one of them alone nothing changes. Without all 7 it would be at 10:30Z, "
            "65 min later; what they write below 10:30Z would then be late."
        ),
    ]


def test_holders_that_are_not_all_named_may_take_longer() -> None:
    """The controller names a thousand of them."""
    said = list(explained("orders", hold("lima", "osaka", holders=2000), Further(page(live=2000))))

    assert "or automatically in 10s at the earliest, when the last of them times out." in said[2]


@pytest.mark.parametrize(
    ("time", "lower", "says"),
    [
        (None, None, "lima has held it for 1m: it has noted no time yet."),
        (NINE_25 - 1000, NINE_25, "it noted 09:24:59Z, which is below the watermark."),
    ],
)
def test_what_a_holder_noted_is_told(time: int | None, lower: int | None, says: str) -> None:
    """Also where it noted nothing, or came back below the watermark."""
    found = hold("lima", lower=lower)
    found["waiting_for"][0]["time"] = time
    said = list(explained("orders", found, Further(page(live=1))))

    assert said[1].endswith(says)


@pytest.mark.parametrize(
    ("lower", "without", "says"),
    [
        (
            NINE_25,
            NINE_25,
            "Without lima it would stay where it is: no other writer has noted a later time.",
        ),
        (None, None, "Without lima there would still be no mark."),
        (
            None,
            NINE_25,
            (
                "Without lima it would be at 2013-01-01T09:25:00Z; "
                "what lima writes below 2013-01-01T09:25:00Z would then be late."
            ),
        ),
        (40, 42, "Without lima it would be at 42, 2 later; what lima writes below 42"),
    ],
)
def test_leaving_the_holder_out_may_change_little(
    lower: int | None, without: int | None, says: str
) -> None:
    """Nothing, where nobody else noted more; and times need not be of a clock."""
    found = hold("lima", without=without, lower=lower)
    said = list(explained("orders", found, Further(page(live=1))))

    assert said[-2].startswith(says)


def test_those_excluded_are_named_with_the_reason() -> None:
    """The first of them."""
    gone = [
        {"writer": "lima", "excluded": {"reason": "timed_out", "since": NOW - 90_000}},
        {"writer": "osaka", "excluded": {"reason": "returned_late", "since": NOW - 1000}},
    ]
    found = QUIET | {"lower": NINE_25}
    said = explained("orders", found, Further(page(idle=1, excluded=3), excluded=gone))

    assert list(said) == [
        "orders is quiet at 2013-01-01T09:25:00Z: it waits for no writer; everything is marked.",
        "Not waited for: 1 idle, 3 excluded.",
        (
            "Excluded at present: "
            "lima (timed out 1m 30s ago), osaka (came back late 1s ago) and 1 more."
        ),
    ]


def test_a_stream_without_any_writer_left_is_not_merely_quiet() -> None:
    """It says what would advance it; beside an idle writer it is quiet."""
    found = QUIET | {"lower": NINE_25}
    abandoned = list(explained("orders", found, Further(page(excluded=2, finished=1))))
    resting = list(explained("orders", found, Further(page(excluded=2, idle=1))))

    assert (ABANDONED in abandoned, ABANDONED in resting) == (True, False)


def test_in_one_of_several_domains_others_may_not_vouch() -> None:
    """A live writer that does not hold the domain need not have noted it."""
    found = QUIET | {"decision": "advance", "lower": NINE_25, "next_lower": NINE_25 + 1000}
    said = list(explained("orders", found, Further(page(live=1), domain="shipped")))

    assert said[:2] == [
        "orders, at 2013-01-01T09:25:00Z, advances to 2013-01-01T09:25:01Z.",
        "1 live writer has noted later times, or vouches for another domain than shipped.",
    ]
