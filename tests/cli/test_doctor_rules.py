"""Verdicts of the doctor on values; see `doctor_rules.txt`."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from noted_time.client import Json
from noted_time.kafka import TopicLook
from noted_time.observing import Stamp
from noted_time.values import MAX_INT64
from noted_time_cli.doctor import controller_rules, spark_rules, stream_rules, topic_rules
from noted_time_cli.doctor.stream_rules import ExaminedStream
from noted_time_cli.doctor.verdict import Finding
from tests.support.paragraphs import read_paragraphs

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
ACCESS: Json = {
    "tokens": True,
    "token": "5b",
    "read": [],
    "write": [],
    "writers": ["*"],
    "administer": False,
}
TOPIC = {
    "message.timestamp.type": "CreateTime",
    "message.timestamp.before.max.ms": str(MAX_INT64),
    "message.timestamp.after.max.ms": "3600000",
    "retention.ms": str(7 * DAY),
    "cleanup.policy": "delete",
}


def examine(rows: list[Json], **changed: object) -> ExaminedStream:
    """Return a stream with these writers."""
    return ExaminedStream(STREAM | changed, {"writers": rows}, {})


def describe(found: list[Finding]) -> str:
    return "; ".join(
        f"{each.outcome}: {each.fact}{each.remedy and f' → {each.remedy}'}" for each in found
    )


def judge_stamped(observes: list[bool]) -> list[Finding]:
    rows = [LIVE | {"observes": each} for each in observes]
    stamped = TOPIC | {"message.timestamp.type": "LogAppendTime"}
    return topic_rules.judge_topic(stamped, TopicLook("a", {}), examine(rows), NOON)


def judge_segments(position: dict[str, int], ends: list[int | None]) -> list[Finding]:
    known = {partition: end for partition, end in enumerate(ends) if end is not None}
    look = TopicLook("a", known, frozenset(range(len(ends))) - known.keys())
    return topic_rules.judge_segments(look, examine([LIVE | {"position": position}]))


def find_writer_faults(changed: Json) -> str:
    found = stream_rules.find_writer_faults(LIVE | changed, STREAM, NOON)
    return "; ".join(f"{fault}: {detail}" for fault, detail in found) or "no fault"


RULES: dict[str, Callable[..., str | list[Finding]]] = {
    "clock": lambda *at: controller_rules.judge_clock(DATE, *(NOON + each for each in at)),
    "token": lambda permits: controller_rules.judge_token(ACCESS | permits, "flights"),
    "stream": lambda changed: stream_rules.judge_settings(STREAM | changed),
    "writer": find_writer_faults,
    "topic": lambda changed, age, ahead: topic_rules.judge_settings(
        TOPIC | changed, age, ahead, is_observed=False
    ),
    "observed": judge_stamped,
    "log": lambda log, logs: topic_rules.judge_log(TopicLook(log, {0: 5}), examine([], logs=logs)),
    "segments": judge_segments,
    "checkpoint": lambda own, ids: list(
        spark_rules.judge_checkpoint("c", [("flights", "ship", own)], ids)
    ),
}


@pytest.mark.parametrize("acts", read_paragraphs(Path(__file__).with_name("doctor_rules.txt")))
def test_rules(acts: list[str]) -> None:
    for act in acts:
        called, _, expected = re.sub(r"\n +", " ", act).partition(" -> ")
        rule, _, given = called.partition(" ")
        found = RULES[rule](*json.loads(f"[{given}]"))
        text = found if isinstance(found, str) else describe(found)
        assert re.fullmatch(".*".join(map(re.escape, expected.split("…"))), text), (act, text)


def test_without_a_date_the_clock_is_not_checked() -> None:
    """A proxy may drop the header."""
    assert controller_rules.judge_clock(None, 0, 1)[0].outcome == "not checked"


def explain(*hints: tuple[str, str], lower: int | None = NOON, silence: str = "") -> Json:
    """Return what `explain` answers, with these hints of the writer UA."""
    named = [{"writer": writer, "hint": hint} for writer, hint in hints]
    return {"sentences": ["It holds.", "So."], "lower": lower, "silence": silence, "hints": named}


def judge(*rows: Json, **explained: Json) -> list[tuple[str, str]]:
    """Return the problems of a stream and its domains."""
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
    ("mark", "newest", "age_ms"),
    [
        ({"lower": NOON - 9, "written_at": NOON}, NOON, 9),
        ({"lower": NOON, "written_at": NOON - 9}, NOON, 0),
        (None, NOON - 7, 7),
        (None, None, 0),
    ],
)
def test_event_age_of_mark_or_newest(mark: Json | None, newest: int | None, age_ms: int) -> None:
    look = TopicLook("a", {}, newest={} if newest is None else {0: Stamp(newest, 4)})

    assert topic_rules.find_age_ms(look, examine([], marks={"default": mark}), NOON) == age_ms


@pytest.mark.parametrize(("placed", "found"), [(1, []), (5, [("writers", "no position: shop0")])])
def test_no_position_is_ok_if_most_have_none(placed: int, found: list[tuple[str, str]]) -> None:
    """Five shops upload files, and one or more writers note positions."""
    shops = [LIVE | {"writer": f"shop{n}", "position": {}} for n in range(5)]

    assert judge(*shops, *[LIVE] * placed, default=explain(("shop0", "no_position"))) == found


def test_late_records_name_the_record_that_moved_time() -> None:
    """The observer is not at fault, because it notes what it reads."""
    fact = {"kind": "moved_by", "segment": 0, "offset": 7, "time": NOON, "by": "d07"}
    row = LIVE | {"observes": True, "because": [fact]}

    found = judge(row, default=explain(("UA", "late")))

    assert found == [("writers", "moved by: UA"), ("writers", "late records: UA")]


def test_named_pages_have_that_title() -> None:
    """A wheel has no `docs`, so users find the page by its title."""
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
