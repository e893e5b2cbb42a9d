"""What the doctor makes of values: each rule as a table."""

import re
import tomllib
from pathlib import Path

import pytest

from noted_time.client import Json
from noted_time.kafka import TopicLook
from noted_time.observing import Stamp
from noted_time.values import MAX_INT64
from noted_time_cli.doctor import controller_rules, spark_rules, stream_rules, topic_rules
from noted_time_cli.doctor.stream_rules import ExaminedStream
from noted_time_cli.doctor.verdict import Finding

NOON = 1_357_041_600_000
DAY = 86_400_000
DATE = "Tue, 01 Jan 2013 12:00:00 GMT"

STREAM: Json = {
    "name": "flights",
    "id": "9b",
    "seal": None,
    "writer_timeout_ms": 60_000,
    "mark_retention_ms": 7 * DAY,
    "max_time_ahead_ms": 3_600_000,
    "domains": ["default"],
    "expected_writers": [],
    "marks": {"default": {"lower": NOON, "written_at": NOON}},
    "logs": [],
}
LIVE: Json = {
    "writer": "UA",
    "state": "live",
    "times": {"default": NOON},
    "position": {"0": 5},
    "noted_at": NOON,
    "holding_since": None,
    "excluded": None,
    "timeout_ms": None,
    "domains": None,
    "held_until": None,
    "is_expected": False,
    "observes": False,
    "because": [],
    "silent_ms": 0,
    "is_silent": False,
    "session": {"session": "s"},
    "held": None,
}
TOPIC = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(MAX_INT64),
    "message.timestamp.after.max.ms": "3600000",
    "retention.ms": str(7 * DAY),
    "cleanup.policy": "delete",
}


def seen(rows: list[Json], **changed: object) -> ExaminedStream:
    """Return a stream with these writers."""
    return ExaminedStream(STREAM | changed, {"writers": rows}, {})


def outcomes(found: list[Finding]) -> list[tuple[str, str]]:
    """Return outcome and fact of each."""
    return [(each.outcome, each.fact) for each in found]


@pytest.mark.parametrize(
    ("sent", "received", "outcome", "fact"),
    [
        (NOON, NOON + 3, "ok", "differs from the controller's by at most 2s (round trip 3ms)"),
        (NOON + 4000, NOON + 4005, "ok", "by at most 4s 5ms (round trip 5ms)"),
        (NOON - 9000, NOON - 8900, "wrong", "clock is 8s 900ms ahead of this one or more"),
        (NOON + 20_000, NOON + 20_050, "wrong", "clock is 18s behind this one or more"),
        # a slow answer leaves the difference open
        (NOON - 9000, NOON + 500, "ok", "at most 11s (round trip 9500ms)"),
    ],
)
def test_a_clock_is_judged_within_the_round_trip(
    sent: int, received: int, outcome: str, fact: str
) -> None:
    """The date has full seconds: what is within that, and within the round trip, is not known."""
    (found,) = controller_rules.judge_clock(DATE, sent, received)

    assert (found.outcome, fact in found.fact) == (outcome, True), found


def test_without_a_date_the_clock_is_not_checked() -> None:
    """As behind a proxy that drops it."""
    assert controller_rules.judge_clock(None, 0, 1)[0].outcome == "not checked"


@pytest.mark.parametrize(
    ("permits", "outcome", "fact"),
    [
        ({"read": ["flights"]}, "ok", "token 5b permits: read flights"),
        ({"write": ["*"], "writers": ["UA"]}, "ok", "token 5b permits: write * as UA"),
        ({"administer": True}, "ok", "token 5b permits: administer"),
        ({"read": ["trains"]}, "wrong", "token 5b permits: read trains; nothing on flights"),
        (
            {"tokens": False},
            "ok",
            "none is required: everyone who can reach the controller may do everything",
        ),
    ],
)
def test_a_token_is_judged_by_what_it_permits_on_the_stream(
    permits: Json, outcome: str, fact: str
) -> None:
    """A writer's token may be one that reads nothing."""
    none: Json = {"read": [], "write": [], "writers": ["*"], "administer": False}
    access = {"tokens": True, "token": "5b", **none, **permits}

    assert outcomes(controller_rules.judge_token(access, "flights")) == [(outcome, fact)]


@pytest.mark.parametrize(
    ("changed", "remedies"),
    [
        ({}, [""]),
        ({"seal": {"at": NOON}}, [""]),
        ({"writer_timeout_ms": 4999}, ["--writer-timeout 60s"]),
        ({"mark_retention_ms": 60_000}, ["--mark-retention 7d"]),
        ({"max_time_ahead_ms": None}, ["--max-time-ahead 1h"]),
        ({"max_time_ahead_ms": None, "marks": {"default": {"lower": 42}}}, [""]),
        ({"max_time_ahead_ms": None, "marks": {"default": None}}, [""]),
    ],
)
def test_a_setting_of_the_stream_that_bites_has_its_remedy(
    changed: Json, remedies: list[str]
) -> None:
    """Times that are not Unix ms may be any."""
    found = stream_rules.judge_settings(STREAM | changed)

    change = "noted-time stream create flights "
    assert [each.remedy.removeprefix(change) for each in found] == remedies


@pytest.mark.parametrize(
    ("changed", "faults"),
    [
        ({}, []),
        ({"state": "idle"}, []),
        ({"silent_ms": 31_000, "is_silent": True}, [("silent", "31s of 1m")]),
        (
            {"silent_ms": 9000, "is_silent": True, "timeout_ms": 9500},
            [("silent", "9s of 9s 500ms")],
        ),
        ({"is_silent": True, "silent_ms": 9, "held_until": NOON + DAY}, []),
        ({"held": "1 event is lost"}, [("alive, but not noting", "1 event is lost")]),
        ({"holding_since": NOON - 59_000}, []),
        ({"holding_since": NOON - 60_000}, [("holding for longer than its timeout", "1m")]),
        ({"holding_since": NOON - 60_000, "timeout_ms": 90_000}, []),
        ({"times": {}}, []),
        ({"is_expected": True, "noted_at": NOON - 5000}, [("never came", "expected for 5s")]),
        (
            {"state": "excluded", "excluded": {"reason": "timed_out", "since": NOON}},
            [("excluded", "")],
        ),
        ({"state": "excluded", "excluded": {"reason": "removed", "since": NOON}}, []),
        ({"domains": ["ship"]}, [("holding without a time", "never noted ship")]),
    ],
)
def test_a_writer_that_looks_wrong_has_one_fault(
    changed: Json, faults: list[tuple[str, str]]
) -> None:
    """One that an operator holds or removed is as was wished; one that joined is waited for."""
    assert list(stream_rules.find_writer_faults(LIVE | changed, STREAM, NOON)) == faults


def explain(*hints: tuple[str, str], lower: int | None = NOON, silence: str = "") -> Json:
    """Return what `explain` answers, with these hints of the writer UA."""
    named = [{"writer": writer, "hint": hint} for writer, hint in hints]
    return {"sentences": ["It holds.", "So."], "lower": lower, "silence": silence, "hints": named}


def judge(*rows: Json, **explained: Json) -> list[tuple[str, str]]:
    """Return what is wrong with a stream, and otherwise the domains."""
    page = {"now": NOON, "writers": rows, "states": {}}
    found = stream_rules.judge_stream(ExaminedStream(STREAM, page, explained))
    return [(each.check, each.fact) for each in found if each.outcome == "wrong"]


def test_writers_with_the_same_fault_share_a_line() -> None:
    rows = [LIVE | {"writer": f"w{n}", "is_silent": True, "silent_ms": 45_000} for n in range(7)]
    fenced = explain(("UA", "fenced"), ("DL", "taken_over"))

    found = judge(*rows, default=fenced, ship=fenced)

    named = ", ".join(f"w{n} (45s of 1m)" for n in range(5))
    assert found == [
        ("writers", f"silent: {named} and 2 more"),
        ("writers", "shared name: UA and DL"),
    ]


@pytest.mark.parametrize(
    ("explained", "is_wrong"),
    [
        (explain(), False),
        (explain(lower=None), True),
        (explain(silence="missing"), True),
        (explain(silence="silent"), True),
        (explain(silence="ended"), False),
    ],
)
def test_domain_without_mark_or_silent_is_wrong(explained: Json, *, is_wrong: bool) -> None:
    assert judge(LIVE, ship=explained) == [("domain ship", "It holds. So.")] * is_wrong


def test_stream_without_writers_is_wrong_once() -> None:
    assert judge(default=explain(lower=None), ship=explain(lower=None)) == [
        ("domain default", "It holds. So.")
    ]


@pytest.mark.parametrize(
    ("changed", "age_ms", "ahead_ms", "names"),
    [
        ({}, DAY, 3_600_000, []),
        ({"message.timestamp.type": "LogAppendTime"}, 30 * DAY, None, ["message.timestamp.type"]),
        ({"cleanup.policy": "compact,delete"}, 0, 0, ["cleanup.policy"]),
        ({}, 7 * DAY + 1, 0, ["retention.ms"]),
        ({"retention.ms": "-1"}, 900 * DAY, 0, []),
        ({"message.timestamp.before.max.ms": "1000"}, 1001, 0, ["message.timestamp.before.max.ms"]),
        ({}, 0, 7_200_000, ["message.timestamp.after.max.ms"]),
        ({}, 0, None, ["message.timestamp.after.max.ms"]),
        ({"message.timestamp.after.max.ms": str(MAX_INT64)}, 0, None, []),
    ],
)
def test_a_setting_of_the_topic_that_bites_is_named(
    changed: dict[str, str], age_ms: int, ahead_ms: int | None, names: list[str]
) -> None:
    """By how old events are when they come, and how far ahead the stream lets them be."""
    found = topic_rules.judge_settings(TOPIC | changed, age_ms, ahead_ms, is_observed=False)

    wrong = [each for each in found if each.outcome == "wrong"]
    assert [each.fact.partition("=")[0] for each in wrong] == names
    assert all(each.remedy.startswith(f"set {each.fact.partition('=')[0]}=") for each in wrong)


@pytest.mark.parametrize(
    ("observe", "outcome"), [([True], "ok"), ([True, False], "wrong"), ([], "wrong")]
)
def test_an_observed_topic_may_have_the_brokers_stamps(observe: list[bool], outcome: str) -> None:
    """None but observers may note."""
    rows = [LIVE | {"observes": each} for each in observe]
    stamped = TOPIC | {"message.timestamp.type": "LogAppendTime"}

    (found,) = topic_rules.judge_topic(stamped, TopicLook("a", {}), seen(rows), NOON)

    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("mark", "newest", "age_ms"),
    [
        ({"lower": NOON - 9, "written_at": NOON}, NOON, 9),
        ({"lower": NOON, "written_at": NOON - 9}, NOON, 0),
        (None, NOON - 7, 7),
        (None, None, 0),
    ],
)
def test_events_are_as_old_as_at_the_mark_or_as_the_newest_is(
    mark: Json | None, newest: int | None, age_ms: int
) -> None:
    """Whichever is known."""
    look = TopicLook("a", {}, newest={} if newest is None else {0: Stamp(newest, 4)})

    assert topic_rules.find_age_ms(look, seen([], marks={"default": mark}), NOON) == age_ms


@pytest.mark.parametrize(
    ("topic_id", "logs", "outcome"),
    [("a", ["b", "a"], "ok"), ("a", [], "ok"), (None, ["b"], "ok"), ("a", ["b", "c"], "wrong")],
)
def test_a_topic_is_the_log_of_the_stream_by_its_id(
    topic_id: str | None, logs: list[str], outcome: str
) -> None:
    """Unless either does not tell one."""
    (found,) = topic_rules.judge_log(TopicLook(topic_id, {0: 5}), seen([], logs=logs))

    assert found.outcome == outcome


@pytest.mark.parametrize(
    ("position", "look", "facts"),
    [
        ({"0": 5}, TopicLook("a", {0: 5}), ["1 partition, 1 noted"]),
        ({"0": 6}, TopicLook("a", {0: 5}), ["segments noted beyond the end … 0 to 6 by UA"]),
        ({"0": 5, "3": 1}, TopicLook("a", {0: 5}), ["segments that are noted and no … [3]"]),
        ({"0": 5}, TopicLook("a", {0: 5, 1: 2}), ["partitions with records and no … [1]"]),
        ({"0": 5}, TopicLook("a", {0: 5, 1: 0}), ["2 partitions, 1 noted"]),
        ({}, TopicLook("a", {}, frozenset({0})), ["partitions without a leader: [0]"]),
    ],
)
def test_positions_are_judged_by_the_partitions_and_their_ends(
    position: dict[str, int], look: TopicLook, facts: list[str]
) -> None:
    """An empty partition needs no position."""
    found = topic_rules.judge_segments(look, seen([LIVE | {"position": position}]))

    begun = [fact.partition(" … ") for fact in facts]
    assert [
        each.fact.startswith(begin) and each.fact.endswith(end)
        for each, (begin, _, end) in zip(found, begun, strict=True)
    ] == [True]


CONNECTOR = "spark-sql-kafka-0-10_2.13-4.2.0.jar"
START = "start Spark with --packages p:kafka:4.2.0 --conf spark.jars.excludes=a:hadoop"


@pytest.mark.parametrize(
    ("own", "ids", "outcome", "fact"),
    [
        ("9b", {"flights": "9b"}, "ok", "c is of flights, domain ship, with the same id"),
        ("", {}, "ok", "c is of flights, domain ship, no mark yet"),
        ("9b", {}, "not checked", "c is of flights, domain ship, id 9b: no controller tells"),
        (
            "9b",
            {"flights": None},
            "wrong",
            "c is of flights, domain ship, id 9b; that stream no longer",
        ),
        ("9b", {"flights": "5c"}, "wrong", "c is of flights, domain ship, id 9b; that stream has"),
    ],
)
def test_a_checkpoint_is_judged_by_the_id_of_its_stream(
    own: str, ids: dict[str, str | None], outcome: str, fact: str
) -> None:
    """A stream that was made again has another."""
    (found,) = spark_rules.judge_checkpoint("c", [("flights", "ship", own)], ids)

    assert (found.outcome, found.fact[: len(fact)]) == (outcome, fact)


@pytest.mark.parametrize(("placed", "found"), [(1, []), (5, [("writers", "no position: shop0")])])
def test_times_alone_are_no_fault_where_most_note_them(
    placed: int, found: list[tuple[str, str]]
) -> None:
    """As five shops do that upload files, where one more writer notes positions."""
    shops = [LIVE | {"writer": f"shop{n}", "position": {}} for n in range(5)]

    assert judge(*shops, *[LIVE] * placed, default=explain(("shop0", "no_position"))) == found


def test_late_records_are_put_down_to_the_record_that_moved_time() -> None:
    """And not to the observer, which has to note what it sees."""
    fact = {"kind": "moved_by", "segment": 0, "offset": 7, "time": NOON, "by": "d07"}
    row = LIVE | {"observes": True, "because": [fact]}

    found = judge(row, default=explain(("UA", "late")))

    assert found == [("writers", "moved by: UA"), ("writers", "late records: UA")]


def test_each_page_that_is_named_has_that_title() -> None:
    """Who has a wheel has no `docs`, but may find the page by its title."""
    root = Path(__file__).parents[2]
    rules = list((root / "noted_time_cli" / "doctor").glob("*.py"))
    text = "".join(each.read_text("utf-8") for each in rules)
    config = tomllib.loads((root / "docs" / "site" / "zensical.toml").read_text("utf-8"))
    titles = {
        title
        for part in config["project"]["nav"]
        for pages in part.values()
        if isinstance(pages, list)
        for page in pages
        for title in page
    }

    named = set(re.findall(r"page '([^']+)'", text))
    assert (len(named) > 3, named - titles, "docs/" in text) == (True, set(), False)
