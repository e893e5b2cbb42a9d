"""Verdicts of the doctor on values; see `doctor_rules.txt`."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noted_time.client import Json
from noted_time.kafka import TopicLook
from noted_time.observing import Stamp
from noted_time.values import MAX_INT64
from noted_time_cli.doctor import controller_rules, spark_rules, stream_rules, topic_rules
from noted_time_cli.doctor.spark_rules import NotedSource
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
    "holding_back_began_at": None,
    "excluded": None,
    "timeout_ms": None,
    "domains": None,
    "suspension_ends_at": None,
    "is_expected": False,
    "observes": False,
    "because": [],
    "silent_ms": 0,
    "is_silent": False,
    "session": {"session": "s"},
    "no_time_reason": None,
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


def examine(rows: list[Json], **changes: object) -> ExaminedStream:
    """Return a stream with these writers."""
    return ExaminedStream(STREAM | changes, {"writers": rows}, {})


def describe(findings: list[Finding]) -> str:
    return "; ".join(
        f"{finding.outcome}: {finding.fact}{finding.remedy and f' → {finding.remedy}'}"
        for finding in findings
    )


def judge_stamped(observes: list[bool]) -> list[Finding]:
    rows = [LIVE | {"observes": each} for each in observes]
    stamped_topic = TOPIC | {"message.timestamp.type": "LogAppendTime"}
    return topic_rules.judge_topic(stamped_topic, TopicLook("a", {}), examine(rows), NOON)


def judge_segments(position: dict[str, int], ends: list[int | None]) -> list[Finding]:
    known_ends = {partition: end for partition, end in enumerate(ends) if end is not None}
    look = TopicLook("a", known_ends, frozenset(range(len(ends))) - known_ends.keys())
    return topic_rules.judge_segments(look, examine([LIVE | {"position": position}]))


def find_writer_faults(changes: Json) -> str:
    writer_faults = stream_rules.find_writer_faults(LIVE | changes, STREAM, NOON)
    return "; ".join(f"{fault}: {detail}" for fault, detail in writer_faults) or "no fault"


def judge_stream(rows: list[Json], explanations: dict[str, Json]) -> str:
    """Return the problems of a stream whose domains `explain` explains so."""
    answer = {"sentences": ["It holds.", "So."], "lower": NOON, "silence": "", "hints": []}
    page = {"now": NOON, "writers": [LIVE | row for row in rows], "states": {}}
    domains = {domain: answer | explanation for domain, explanation in explanations.items()}
    findings = stream_rules.judge_stream(ExaminedStream(STREAM, page, domains))
    problems = []
    for finding in findings:
        if finding.outcome == "wrong":
            problems.append(f"{finding.check}: {finding.fact}")
    return "; ".join(problems) or "no problem"


def find_age(mark: Json | None, newest: int | None) -> str:
    look = TopicLook("a", {}, newest={} if newest is None else {0: Stamp(newest, 4)})
    return f"{topic_rules.find_age_ms(look, examine([], marks={'default': mark}), NOON)} ms"


def judge_clock(before_ms: int, after_ms: int) -> list[Finding]:
    return controller_rules.judge_clock(DATE, NOON + before_ms, NOON + after_ms)


def judge_token(permits: Json) -> list[Finding]:
    return controller_rules.judge_token(ACCESS | permits, "flights")


def judge_stream_settings(changes: Json) -> list[Finding]:
    return stream_rules.judge_settings(STREAM | changes)


def judge_topic_settings(changes: Json, age: Any, ahead: Any) -> list[Finding]:  # noqa: ANN401 - from JSON
    return topic_rules.judge_settings(TOPIC | changes, age, ahead, is_observed=False)


def judge_log(log: Any, logs: list[str]) -> list[Finding]:  # noqa: ANN401 - from JSON
    return topic_rules.judge_log(TopicLook(log, {0: 5}), examine([], logs=logs))


def judge_checkpoint(own: Any, ids: Any) -> list[Finding]:  # noqa: ANN401 - from JSON
    source = NotedSource("flights", "ship", own)
    return list(spark_rules.judge_checkpoint("c", [source], ids))


RULES: dict[str, Callable[..., str | list[Finding]]] = {
    "clock": judge_clock,
    "token": judge_token,
    "stream": judge_stream_settings,
    "writer": find_writer_faults,
    "topic": judge_topic_settings,
    "observed": judge_stamped,
    "log": judge_log,
    "segments": judge_segments,
    "problems": judge_stream,
    "age": find_age,
    "checkpoint": judge_checkpoint,
}


@pytest.mark.parametrize("acts", read_paragraphs(Path(__file__).with_name("doctor_rules.txt")))
def test_rules(acts: list[str]) -> None:
    for act in acts:
        rule_call, _, expected = re.sub(r"\n +", " ", act).partition(" -> ")
        rule, _, arguments = rule_call.partition(" ")
        findings = RULES[rule](*json.loads(f"[{arguments}]"))
        text = findings if isinstance(findings, str) else describe(findings)
        pattern = re.escape(expected).replace("…", ".*")
        assert re.fullmatch(pattern, text), (act, text)


def test_without_a_date_the_clock_is_not_checked() -> None:
    """A proxy may drop the header."""
    assert controller_rules.judge_clock(None, 0, 1)[0].outcome == "not checked"


def test_named_pages_have_that_title() -> None:
    """A wheel has no `docs`, so users find the page by its title."""
    root = Path(__file__).parents[2]
    rules = list((root / "noted_time_cli" / "doctor").glob("*.py"))
    text = "".join(rule.read_text("utf-8") for rule in rules)
    config = tomllib.loads((root / "docs" / "site" / "zensical.toml").read_text("utf-8"))
    titles = set[str]()
    for part in config["project"]["nav"]:
        for pages in part.values():
            if isinstance(pages, list):
                for page in pages:
                    titles |= page.keys()

    page_names = set(re.findall(r"page '([^']+)'", text))
    assert (len(page_names) > 3, page_names - titles, "docs/" in text) == (True, set(), False)
